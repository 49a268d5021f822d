//! Sequences that one of their jobs has halted. They may be meant to wait, so it is a warning. The repair quotes names
//! as shells do.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "halted_sequence",
    sql: r"select 'warning' as severity,
       'the sequence `' || s.limit_name || '` is halted' || case when s.limit_key <> '[]' then ' for key ' || s.limit_key else '' end || ' since '
           || datetime(s.halted_at / 1000000, 'unixepoch') || 'Z, because job ' || s.job_id || ' was discarded; jobs that wait: '
           || (select count(*) from (select 1 from jobs_job where flags & 2 and flags & 4 and limit_name = s.limit_name and limit_key = s.limit_key limit 1000)) as what,
       case when exists (select 1 from jobs_job where id = s.job_id) then 'worker retry ' || s.job_id || ', or without that job: ' else '' end
           || 'worker sequences skip ' || case when s.limit_name like '-%' then '-- ' else '' end || '''' || replace(s.limit_name, '''', '''\''''') || '''' || ' ' || '''' || replace(s.limit_key, '''', '''\''''') || '''' as repair
from jobs_permit s where s.halted_at is not null order by s.halted_at, s.job_id limit 20",
};
