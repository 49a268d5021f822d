//! Kinds of waiting jobs that no live worker of their queue knows.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "unknown_kind",
    sql: r"select 'error' as severity, 'jobs of kind `' || kind || '` wait in queue `' || queue || '` (' || jobs || '), and no live worker there knows the kind' as what,
       'deploy a program with this kind, or end the jobs: worker cancel --kind ' || kind as repair
from (select queue, kind, count(*) as jobs from jobs_job where state = 'available' group by queue, kind) waiting
where exists (select 1 from jobs_worker w, json_each(w.queues) q where (w.heartbeat_at + w.lease_micros >= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)) and w.asked is null and q.value = waiting.queue)
  and not exists (select 1 from jobs_worker w, json_each(w.queues) q where (w.heartbeat_at + w.lease_micros >= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)) and w.asked is null and q.value = waiting.queue
                  and (w.kinds is null or exists (select 1 from json_each(w.kinds) k where k.value = waiting.kind)))
order by jobs desc limit 20",
};
