//! Queues in which jobs wait and that no live worker serves. It reads one index entry per queue, and all jobs that
//! wait for their limits.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "unserved_queue",
    sql: r"with recursive live (queue) as (
    (select r.queue from jobs.ready r order by r.queue limit 1)
    union all
    select (select r.queue from jobs.ready r where r.queue > live.queue order by r.queue limit 1) from live where live.queue is not null
)
select 'error' as severity, format('jobs wait in queue `%s`, and no live worker serves it', queue) as what,
       format('worker run --queues %s', queue) as repair
from (select queue from live where queue is not null union select queue from jobs.held) waiting
where not exists (
    select from jobs.worker w where w.heartbeat_at >= now() - w.lease and w.asked is null and waiting.queue = any(w.queues))
order by queue limit 20",
};
