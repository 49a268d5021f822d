-- Back to version 3 of the schema. It deletes what operators have set and done at run time, schedules that operators have added,
-- the history, and the trace contexts of all jobs. It deletes no job. Paused queues stay paused. Schedules that an operator has
-- changed become those of the code when the next worker starts.
-- Locks: it holds the file's write lock while it changes the tables.

-- The permission to delete jobs is for one revert, and this one deletes none.
drop table if exists main.jobs_allow_drop;

drop view jobs_job_view;

alter table jobs_job drop column traceparent;

create view jobs_job_view as
select id, kind, queue,
       case when state <> 'available' then state
            when run_at <= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) then 'available'
            when attempt > 0 then 'retrying' else 'scheduled' end as state,
       priority, attempt, max_attempts, crashes, run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args,
       (select e.message from jobs_job_error e where e.job_id = jobs_job.id order by e.id desc limit 1) as last_error,
       flags,
       (select o.value from jobs_output o where o.job_id = jobs_job.id and o.lease = jobs_job.lease and jobs_job.state = 'completed') as output,
       (select o.note from jobs_output o where o.job_id = jobs_job.id and o.lease = jobs_job.lease and jobs_job.state = 'completed') as output_note,
       (select o.progress_done from jobs_output o where o.job_id = jobs_job.id) as progress_done,
       (select o.progress_total from jobs_output o where o.job_id = jobs_job.id) as progress_total,
       (select o.progress_message from jobs_output o where o.job_id = jobs_job.id) as progress_message,
       (select o.progress_at from jobs_output o where o.job_id = jobs_job.id) as progress_at
from jobs_job;


delete from jobs_schedule where added_by is not null;
update jobs_schedule set flags = flags & ~1;
alter table jobs_schedule drop column args;
alter table jobs_schedule drop column queue;
alter table jobs_schedule drop column priority;
alter table jobs_schedule drop column max_attempts;
alter table jobs_schedule drop column added_by;
alter table jobs_schedule drop column changed_by;
alter table jobs_schedule drop column changed_at;
alter table jobs_schedule drop column declared;
alter table jobs_schedule drop column paused_at;
alter table jobs_schedule drop column paused_by;
alter table jobs_schedule drop column paused_reason;
alter table jobs_queue drop column paused_at;
alter table jobs_queue drop column paused_by;
alter table jobs_queue drop column paused_reason;
alter table jobs_queue drop column slots;
alter table jobs_worker drop column version;
alter table jobs_worker drop column slots;
alter table jobs_worker drop column kinds;
alter table jobs_worker drop column asked;
alter table jobs_worker drop column asked_at;
alter table jobs_worker drop column asked_by;
alter table jobs_job_error drop column fingerprint;
alter table jobs_job_error drop column place;
alter table jobs_job_error drop column backtrace;
alter table jobs_job_error drop column actor;

drop index jobs_job_unsuccessful;
drop table jobs_kind;
drop table jobs_retention;
drop table jobs_audit;
drop table jobs_operation;
drop table jobs_history;
drop table jobs_sample;

delete from jobs_schema_migration where version = 4;
