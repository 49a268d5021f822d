//! Jobs and keys that admission leaves out for a while, because it has failed there, and jobs that the file has refused
//! to end. The worker's log has a line when this begins.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "admission",
    sql: r"select 'error' as severity,
       case when f.job_id = 0 then 'admission of the limit `' || case when f.limit_name = '' then 'several limits' else f.limit_name end || '`'
                || case when f.limit_key <> '[]' then ' with the key `' || f.limit_key || '`' else '' end
            else case f.limit_key when '' then 'the end' else 'admission' end || ' of job ' || f.job_id || ' (' || h.kind || ') in queue `' || h.queue || '`' end
           || ' has failed ' || case when f.failures = 1 then 'once' else f.failures || ' times' end || ' since ' || datetime(f.since / 1000000, 'unixepoch') || 'Z: ' || f.message as what,
       'remove the cause: ' || case when f.job_id > 0 and f.limit_key = '' then 'a worker' else 'admission' end || ' tries it again at '
           || datetime(f.next_at / 1000000, 'unixepoch') || 'Z'
           || case when f.job_id > 0 and f.limit_key = '' then '' when f.job_id > 0 then ', or: worker cancel ' || f.job_id
                   else coalesce('; if its first job is the cause: worker cancel ' || (
                       select id from jobs_job where flags & 2 and held_back = 0 and limit_name = f.limit_name and limit_key = f.limit_key
                       order by priority desc, due_at, id limit 1), '') end as repair
from jobs_admission_failure f left join jobs_job h on h.id = f.job_id
    and case f.limit_key when '' then h.state in ('available', 'running') else h.flags & 2 and h.held_back = 1 end
where f.job_id = 0 or h.id is not null
order by f.since, f.limit_name, f.limit_key, f.job_id limit 20",
};
