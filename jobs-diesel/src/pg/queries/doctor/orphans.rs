//! Large arguments, outputs and failures of jobs that do not exist, and unique keys without effect. Statements of
//! others have deleted the jobs. Those of a job that was set apart are still needed: it can be put back.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "orphan",
    sql: r"select 'warning' as severity, format('jobs.%s has %s of no job', name, case when rows = 1 then 'a row' else rows || ' rows' end) as what,
       format('delete from jobs.%s o where not exists (select from jobs.ready where id = o.job_id) and not exists (select from jobs.held where id = o.job_id) and not exists (select from jobs.running where id = o.job_id) and not exists (select from jobs.finished where id = o.job_id) and not exists (select from jobs.dead_letter where id = o.job_id)', name) as repair
from (
    select 'payload' as name, count(*) as rows from jobs.payload o
    where not exists (select from jobs.ready where id = o.job_id) and not exists (select from jobs.held where id = o.job_id) and not exists (select from jobs.running where id = o.job_id) and not exists (select from jobs.finished where id = o.job_id) and not exists (select from jobs.dead_letter where id = o.job_id)
    union all
    select 'output', count(*) from jobs.output o
    where not exists (select from jobs.ready where id = o.job_id) and not exists (select from jobs.held where id = o.job_id) and not exists (select from jobs.running where id = o.job_id) and not exists (select from jobs.finished where id = o.job_id) and not exists (select from jobs.dead_letter where id = o.job_id)
    union all
    select 'job_error', count(*) from jobs.job_error o
    where not exists (select from jobs.ready where id = o.job_id) and not exists (select from jobs.held where id = o.job_id) and not exists (select from jobs.running where id = o.job_id) and not exists (select from jobs.finished where id = o.job_id) and not exists (select from jobs.dead_letter where id = o.job_id)
) orphans
where rows > 0
union all
select 'warning', format('jobs.unique_key has %s of no job that waits or runs', case when count(*) = 1 then 'a row' else count(*) || ' rows' end),
       'delete from jobs.unique_key o where not exists (select from jobs.held where id = o.job_id) and not exists (select from jobs.ready where id = o.job_id) and not exists (select from jobs.running where id = o.job_id)'
from jobs.unique_key o
where not exists (select from jobs.held where id = o.job_id) and not exists (select from jobs.ready where id = o.job_id) and not exists (select from jobs.running where id = o.job_id)
having count(*) > 0",
};
