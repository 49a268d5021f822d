//! Queues with jobs that have been due for longer than the objective. Paused queues and frozen databases wait on
//! purpose.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "oldest_due",
    sql: r"select 'error' as severity, 'the oldest due job of queue `' || queue || '` has waited since ' || datetime(oldest / 1000000, 'unixepoch') || 'Z, longer than the objective of {oldest_due} s' as what,
       'start more workers: worker run --queues ' || queue as repair
from (select queue, min(run_at) as oldest from jobs_job where state = 'available' and run_at < (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) - {oldest_due} * 1000000 group by queue) late
where not exists (select 1 from jobs_queue q where q.name = late.queue and q.paused)
  and not exists (select 1 from jobs_installation where frozen_at is not null)
order by oldest limit 20",
};
