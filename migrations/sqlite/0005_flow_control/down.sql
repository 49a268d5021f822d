-- Back to version 4 of the schema. It deletes no job. Jobs with a limit lose it: those that wait for it become available, and all of
-- them may run at once. Jobs that expire lose this, too.
-- Locks: it holds the file's write lock while it changes the tables.

-- The permission to delete jobs is for one revert, and this one deletes none.
drop table if exists main.jobs_allow_drop;

drop view jobs_job_view;
drop trigger jobs_job_arrives;
drop trigger jobs_job_leaves;
drop trigger jobs_job_deleted;
update jobs_job set run_at = due_at where flags & 2;
drop trigger jobs_job_ended;
drop trigger jobs_job_gone;
update jobs_job set flags = flags & ~511 where flags & 511;
drop index jobs_job_start_by;
drop index jobs_job_held;
drop index jobs_job_held_rate;
drop index jobs_job_held_fair;
drop index jobs_job_held_several;
drop index jobs_job_held_on_full;
drop index jobs_job_held_from_lane;
drop index jobs_job_held_later;
drop index jobs_job_held_sequence;
drop index jobs_job_held_paused;
drop table jobs_slot;
drop table jobs_nudge;
drop table jobs_limit_setting;
drop table jobs_rate;
drop table jobs_fair_turn;
drop table jobs_unique_key;
alter table jobs_job drop column limit_name;
alter table jobs_job drop column limit_key;
alter table jobs_job drop column due_at;
alter table jobs_job drop column held_back;
alter table jobs_job drop column start_by;
alter table jobs_job drop column start_after;
alter table jobs_job drop column flow;
alter table jobs_worker drop column draining_at;

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
       (select o.progress_at from jobs_output o where o.job_id = jobs_job.id) as progress_at,
       traceparent
from jobs_job;

delete from jobs_schema_migration where version = 5;
