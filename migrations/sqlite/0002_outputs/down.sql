-- Back to version 1 of the schema. It deletes all outputs, and no job.
-- Locks: it holds the file's write lock meanwhile. It changes no row of another table, except the ledger of versions.

-- The permission to delete jobs is for one revert, and this one deletes none.
drop table if exists main.jobs_allow_drop;

drop view jobs_job_view;

create view jobs_job_view as
select id, kind, queue,
       case when state <> 'available' then state
            when run_at <= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) then 'available'
            when attempt > 0 then 'retrying' else 'scheduled' end as state,
       priority, attempt, max_attempts, crashes, run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args,
       (select e.message from jobs_job_error e where e.job_id = jobs_job.id order by e.id desc limit 1) as last_error,
       flags
from jobs_job;

drop trigger jobs_job_output;
drop table jobs_output;

delete from jobs_schema_migration where version = 2;
