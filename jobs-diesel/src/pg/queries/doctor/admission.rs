//! Jobs and keys that admission leaves out for a while, because it has failed there, and jobs that the database has
//! refused to end. The worker's log has a line when this begins.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "admission",
    sql: r"select 'error' as severity,
       case when f.job_id = -1 then 'the sweep of admission' when f.job_id = 0 then format('admission of the limit `%s`%s',
                case when f.limit_name = '' then 'several limits' else f.limit_name end, case when f.limit_key <> '[]' then format(' with the key `%s`', f.limit_key) else '' end)
            else format('%s of job %s (%s) in queue `%s`', case f.limit_key when '' then 'the end' else 'admission' end, f.job_id, h.kind, h.queue) end
           || format(' has failed %s since %s: %s', case when f.failures = 1 then 'once' else f.failures || ' times' end, to_char(f.since at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'), f.message) as what,
       format('remove the cause: %s tries it again at %s%s', case when f.job_id > 0 and f.limit_key = '' then 'a worker' else 'admission' end,
              to_char(f.next_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'),
              case when f.job_id > 0 and f.limit_key = '' then '' when f.job_id > 0 then format(', or: worker cancel %s', f.job_id)
                   when first.id is not null then format('; if its first job is the cause: worker cancel %s', first.id) else '' end) as repair
from jobs.admission_failure f
left join lateral (
    select h.id, h.kind, h.queue from jobs.held h where h.id = f.job_id and (h.later or f.limit_key = '')
    union all select r.id, r.kind, r.queue from jobs.ready r where r.id = f.job_id and f.limit_key = ''
    union all select r.id, r.kind, r.queue from jobs.running r where r.id = f.job_id and f.limit_key = ''
    limit 1
) h on f.job_id > 0
left join lateral (
    select h.id from jobs.held h where h.limit_name = f.limit_name and h.limit_key = f.limit_key and f.job_id = 0 and not h.later and not h.paused
    order by h.priority desc, h.run_at, h.id limit 1
) first on true
where f.job_id <= 0 or h.id is not null
order by f.since, f.limit_name, f.limit_key, f.job_id limit 20",
};
