//! Limits, rates and sequences whose oldest job has waited for longer than the objective. It is a warning, because they
//! let jobs wait on purpose. Paused queues and kinds and frozen databases wait on purpose, too. A halted sequence is a
//! finding of its own. It reads all jobs that wait for their limits.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "oldest_held",
    sql: r"select 'warning' as severity,
       format('job %s in queue `%s` has waited since %s for %s, longer than the objective of {oldest_due} s',
              id, queue, to_char(run_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'),
              case when limit_name = '' then 'several limits' else format('%s `%s`%s',
                  case when flags & 8 <> 0 then 'a token of the rate' when flags & 4 <> 0 then 'its turn in the sequence' else 'the limit' end,
                  limit_name, case when limit_key <> '[]' then format(' with the key `%s`', limit_key) else '' end) end) as what,
       case when limit_name = '' then format('see which of them is full: worker why %s', id)
            when flags & 8 <> 0 then format('see when the next token comes: worker why %s; the rate is set in the code of the job', id)
            when flags & 4 <> 0 then format('see which job is before it: worker why %s', id)
            else format('see which jobs have the permits: worker why %s; to let more of them run at once: worker limits set %s%s N', id, case when limit_name like '-%' then '-- ' else '' end, '''' || replace(limit_name, '''', E'''\\''''') || '''') end as repair
from (select distinct on (limit_name, limit_key) limit_name, limit_key, queue, kind, id, flags, rules, run_at::timestamptz
      from jobs.held where run_at < now() - interval '{oldest_due} seconds' order by limit_name, limit_key, run_at, id) late
where not exists (select from jobs.queue q where q.name = late.queue and q.paused)
  and not exists (select from jobs.kind k where k.name = late.kind and k.paused)
  and not exists (select from jobs.installation where frozen_at is not null)
  and not exists (select from jobs.permit s where late.flags & 4 <> 0 and s.halted_at is not null and s.limit_name = late.limit_name and s.limit_key = late.limit_key)
  and not (limit_name = '' and exists (
    select from json_array_elements(rules) r join jobs.permit s on s.limit_name = r ->> 'name' and s.limit_key = r ->> 'key' where s.halted_at is not null))
order by run_at limit 20",
};
