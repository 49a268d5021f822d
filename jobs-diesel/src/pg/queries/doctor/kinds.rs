//! Kinds of waiting jobs that no live worker of their queue knows. It reads all waiting jobs, including those that wait
//! for their limits.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "unknown_kind",
    sql: r"select 'error' as severity,
       format('jobs of kind `%s` wait in queue `%s` (%s), and no live worker there knows the kind', kind, queue, jobs) as what,
       format('deploy a program with this kind, or end the jobs: worker cancel --kind %s', kind) as repair
from (select queue, kind, count(*) as jobs from (select queue, kind from jobs.ready union all select queue, kind from jobs.held) job
      group by queue, kind) waiting
where exists (select from jobs.worker w where w.heartbeat_at >= now() - w.lease and w.asked is null and waiting.queue = any(w.queues))
  and not exists (
    select from jobs.worker w where w.heartbeat_at >= now() - w.lease and w.asked is null and waiting.queue = any(w.queues) and (w.kinds is null or waiting.kind = any(w.kinds)))
order by jobs desc limit 20",
};
