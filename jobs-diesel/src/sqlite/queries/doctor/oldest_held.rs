//! Limits, rates and sequences whose oldest job has waited for longer than the objective. It is a warning, because they
//! let jobs wait on purpose. Paused queues and kinds and frozen databases wait on purpose, too. A halted sequence is a
//! finding of its own.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "oldest_held",
    sql: r"select 'warning' as severity,
       'job ' || id || ' in queue `' || queue || '` has waited since ' || datetime(oldest / 1000000, 'unixepoch') || 'Z for '
           || case when limit_name = '' then 'several limits' else
                  case when flags & 8 then 'a token of the rate' when flags & 4 then 'its turn in the sequence' else 'the limit' end
                  || ' `' || limit_name || '`' || case when limit_key <> '[]' then ' with the key `' || limit_key || '`' else '' end end
           || ', longer than the objective of {oldest_due} s' as what,
       case when limit_name = '' then 'see which of them is full: worker why ' || id
            when flags & 8 then 'see when the next token comes: worker why ' || id || '; the rate is set in the code of the job'
            when flags & 4 then 'see which job is before it: worker why ' || id
            else 'see which jobs have the permits: worker why ' || id || '; to let more of them run at once: worker limits set ' || case when limit_name like '-%' then '-- ' else '' end || '''' || replace(limit_name, '''', '''\''''') || '''' || ' N' end as repair
from (select limit_name, limit_key, queue, kind, id, flags, rules, min(due_at) as oldest from jobs_job
      where flags & 2 and due_at < (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) - {oldest_due} * 1000000 group by limit_name, limit_key) late
where not exists (select 1 from jobs_queue q where q.name = late.queue and q.paused)
  and not exists (select 1 from jobs_kind k where k.name = late.kind and k.paused)
  and not exists (select 1 from jobs_installation where frozen_at is not null)
  and not exists (select 1 from jobs_permit s where late.flags & 4 and s.halted_at is not null and s.limit_name = late.limit_name and s.limit_key = late.limit_key)
  and not (limit_name = '' and exists (
    select 1 from json_each(rules) r join jobs_permit s on s.limit_name = r.value ->> '$.name' and s.limit_key = r.value ->> '$.key' where s.halted_at is not null))
order by oldest limit 20",
};
