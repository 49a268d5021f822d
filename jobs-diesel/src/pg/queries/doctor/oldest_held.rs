//! Limits whose oldest job has waited for longer than the objective. It is a warning, because a limit lets jobs wait on purpose. Paused
//! queues and kinds and frozen databases wait on purpose, too. It reads all jobs that wait for their limits.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "oldest_held",
    sql: r"select 'warning' as severity,
       format('job %s in queue `%s` has waited since %s for the limit `%s`%s, longer than the objective of {oldest_due} s',
              id, queue, run_at, limit_name, case when limit_key <> '[]' then format(' with the key `%s`', limit_key) else '' end) as what,
       format('see which jobs have the slots: worker why %s; or let more of them run at once', id) as repair
from (select distinct on (limit_name, limit_key) limit_name, limit_key, queue, kind, id, run_at::timestamptz
      from jobs.held where run_at < now() - interval '{oldest_due} seconds' order by limit_name, limit_key, run_at, id) late
where not exists (select from jobs.queue q where q.name = late.queue and q.paused)
  and not exists (select from jobs.kind k where k.name = late.kind and k.paused)
  and not exists (select from jobs.installation where frozen_at is not null)
order by run_at limit 20",
};
