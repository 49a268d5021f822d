//! Sequences that are behind the numbers in use. Logical replication copies rows and no sequences, so on a new server
//! each begins at 1: jobs get the ids of earlier ones, and inserts fail that number their rows.
//!
//! Usage of a sequence suffices to see where it is, and so does the right to select from it. The snapshot is older
//! than what is read of a sequence, so each number in it that is greater is an error. Each table is read from there on,
//! where an index has no entry as long as all is well: workers do this when they register.

use super::Check;

pub(crate) const CHECK: Check = Check {
    name: "sequence",
    sql: r"with sequences (name, numbered) as (
    values ('jobs.job_id', ''), ('jobs.job_error_id_seq', 'jobs.job_error'), ('jobs.dead_letter_number_seq', 'jobs.dead_letter'),
           ('jobs.history_id_seq', 'jobs.history'), ('jobs.operation_id_seq', 'jobs.operation'), ('jobs.audit_id_seq', 'jobs.audit')
)
select 'error' as severity,
       format('the sequence %s is at %s, and numbers up to %s are in use: %s; logical replication does not copy sequences', name, last_number, used,
              case name when 'jobs.job_id' then 'new jobs get the ids of earlier ones, or cannot be enqueued' else format('inserts into %s fail', numbered) end) as what,
       format('select setval(%L, %s)', name, used) as repair
from sequences
cross join lateral (
    select case when has_sequence_privilege(name, 'USAGE, SELECT') then coalesce(pg_sequence_last_value(name::regclass), 0) end as last_number
) as reached
cross join lateral (
    select case name
        when 'jobs.job_id' then greatest(
            (select id from jobs.ready where id > last_number order by id desc limit 1),
            (select id from jobs.held where id > last_number order by id desc limit 1),
            (select id from jobs.running where id > last_number order by id desc limit 1),
            (select id from jobs.finished where id > last_number order by id desc limit 1),
            (select job_id from jobs.payload where job_id > last_number order by job_id desc limit 1),
            (select job_id from jobs.output where job_id > last_number order by job_id desc limit 1),
            (select job_id from jobs.job_error where job_id > last_number order by job_id desc limit 1),
            (select job_id from jobs.permit where job_id > last_number order by job_id desc limit 1))
        when 'jobs.job_error_id_seq' then (select id from jobs.job_error where id > last_number order by id desc limit 1)
        when 'jobs.dead_letter_number_seq' then (select number from jobs.dead_letter where number > last_number order by number desc limit 1)
        when 'jobs.history_id_seq' then (select id from jobs.history where id > last_number order by id desc limit 1)
        when 'jobs.operation_id_seq' then (select id from jobs.operation where id > last_number order by id desc limit 1)
        when 'jobs.audit_id_seq' then (select id from jobs.audit where id > last_number order by id desc limit 1)
    end as used
) as greatest_number
where used > last_number
union all
select 'skipped', format('permission denied for sequence %s: the role %I does not see where it is', name, current_user),
       format('grant select on sequence %s to %I', name, current_user)
from sequences where not has_sequence_privilege(name, 'USAGE, SELECT')",
};
