//! Limits whose oldest job has waited for longer than the objective. It is a warning, because a limit lets jobs wait on purpose. Paused
//! queues and kinds and frozen databases wait on purpose, too.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "oldest_held",
    sql: r"select 'warning' as severity,
       'job ' || id || ' in queue `' || queue || '` has waited since ' || datetime(oldest / 1000000, 'unixepoch') || ' UTC for the limit `' || limit_name || '`'
           || case when limit_key <> '[]' then ' with the key `' || limit_key || '`' else '' end || ', longer than the objective of {oldest_due} s' as what,
       'see which jobs have the slots: worker why ' || id || '; or let more of them run at once' as repair
from (select limit_name, limit_key, queue, kind, id, min(due_at) as oldest from jobs_job
      where flags & 2 and due_at < (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) - {oldest_due} * 1000000 group by limit_name, limit_key) late
where not exists (select 1 from jobs_queue q where q.name = late.queue and q.paused)
  and not exists (select 1 from jobs_kind k where k.name = late.kind and k.paused)
  and not exists (select 1 from jobs_installation where frozen_at is not null)
order by oldest limit 20",
};
