//! Queues with jobs that have been due for longer than the objective. Paused queues and frozen databases wait on
//! purpose.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "oldest_due",
    sql: r"select 'error' as severity,
       format('the oldest due job of queue `%s` has waited since %s, longer than the objective of {oldest_due} s', queue, to_char(oldest::timestamptz at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ')) as what,
       format('start more workers: worker run --queues %s', queue) as repair
from (select queue, min(run_at) as oldest from jobs.ready where run_at < now() - interval '{oldest_due} seconds' group by queue) late
where not exists (select from jobs.queue q where q.name = late.queue and q.paused)
  and not exists (select from jobs.installation where frozen_at is not null)
order by oldest limit 20",
};
