//! Queues in which jobs wait and that no live worker serves.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "unserved_queue",
    sql: r"select 'error' as severity, 'jobs wait in queue `' || queue || '`, and no live worker serves it' as what, 'worker run --queues ' || queue as repair
from (select distinct queue from jobs_job where state = 'available') waiting
where not exists (select 1 from jobs_worker w, json_each(w.queues) q where (w.heartbeat_at + w.lease_micros >= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)) and w.asked is null and q.value = waiting.queue)
order by queue limit 20",
};
