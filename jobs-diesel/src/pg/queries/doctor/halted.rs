//! Sequences that one of their jobs has halted. They may be meant to wait, so it is a warning. The repair quotes names
//! as shells do.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "halted_sequence",
    sql: r"select 'warning' as severity,
       format('the sequence `%s` is halted%s since %s, because job %s was discarded; jobs that wait: %s',
              s.limit_name, case when s.limit_key <> '[]' then format(' for key %s', s.limit_key) else '' end,
              to_char(s.halted_at::timestamptz at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'), s.job_id,
              (select count(*) from (select from jobs.held h where h.flags & 4 <> 0 and h.limit_name = s.limit_name and h.limit_key = s.limit_key limit 1000) held)) as what,
       format('%sworker sequences skip %s%s %s',
              case when exists (select from jobs.finished f where f.id = s.job_id) then format('worker retry %s, or without that job: ', s.job_id) else '' end,
              case when s.limit_name like '-%' then '-- ' else '' end,
              '''' || replace(s.limit_name, '''', E'''\\''''') || '''',
              '''' || replace(s.limit_key, '''', E'''\\''''') || '''') as repair
from jobs.permit s where s.halted_at is not null order by s.halted_at, s.job_id limit 20",
};
