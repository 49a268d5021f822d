//! Outputs and failures of jobs that do not exist, and unique keys without effect. Statements of others have deleted
//! the jobs.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "orphan",
    sql: r"select 'warning' as severity, name || ' has ' || case when rows = 1 then 'a row' else rows || ' rows' end || ' of no job' as what,
       'delete from ' || name || ' where job_id not in (select id from jobs_job)' as repair
from (select 'jobs_output' as name, count(*) as rows from jobs_output where job_id not in (select id from jobs_job)
      union all select 'jobs_job_error', count(*) from jobs_job_error where job_id not in (select id from jobs_job))
where rows > 0
union all
select 'warning', 'jobs_unique_key has ' || case when count(*) = 1 then 'a row' else count(*) || ' rows' end || ' of no job that waits or runs',
       'delete from jobs_unique_key where job_id not in (select id from jobs_job where state in (''available'', ''running''))'
from jobs_unique_key where job_id not in (select id from jobs_job where state in ('available', 'running')) having count(*) > 0",
};
