//! Sequences that one of their jobs has halted. They may be meant to wait, so it is a warning.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "halted_sequence",
    sql: r"select 'warning' as severity,
       format('the sequence `%s` is halted for the key %s since %s, because job %s was discarded; %s job(s) wait',
              s.limit_name, s.limit_key, to_char(s.halted_at::timestamptz at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'), s.job_id,
              (select count(*) from (select from jobs.held h where h.flags & 4 <> 0 and h.limit_name = s.limit_name and h.limit_key = s.limit_key limit 1000) held)) as what,
       case when exists (select from jobs.finished f where f.id = s.job_id)
            then format('worker retry %s, or without that job: worker sequences skip %s %s', s.job_id, quote_literal(s.limit_name), quote_literal(s.limit_key))
            else format('worker sequences skip %s %s', quote_literal(s.limit_name), quote_literal(s.limit_key)) end as repair
from jobs.slot s where s.halted_at is not null order by s.halted_at, s.job_id limit 20",
};
