-- Version 3 of the schema: the progress of jobs, and the jobs that are enqueued when others are discarded. Programs of the
-- versions 1 and 2 still work on it. They report no progress. They enqueue no job when they discard one.
-- Locks: it holds the file's write lock while it creates objects. It copies the rows of jobs_output.

drop view jobs_job_view;
drop trigger jobs_job_output;

-- SQLite cannot drop a check, so the table is created again. A row now also holds the progress that a running job has
-- reported last. It is kept over the attempts of a job, so it does not depend on the lease number.
alter table jobs_output rename to jobs_output_2;

create table jobs_output (
    job_id integer primary key,
    lease integer not null,
    value text,
    note text,
    progress_done integer,
    progress_total integer,
    progress_message text,
    progress_at integer,
    check (value is null or note is null),
    check ((progress_at is null) = (progress_done is null) and (progress_at is null) = (progress_total is null)
           and (progress_at is null) = (progress_message is null)),
    check (value is not null or note is not null or progress_at is not null)
) strict;

insert into jobs_output (job_id, lease, value, note) select job_id, lease, value, note from jobs_output_2;
drop table jobs_output_2;

-- A trigger, so that no output is left behind, whoever deletes the job: this program, an older one, or a person.
create trigger jobs_job_output after delete on jobs_job begin
    delete from jobs_output where job_id = old.id;
end;

-- What is enqueued when a job of a kind is discarded. Workers write it at their start, from `on_discarded` in the code. A
-- worker that does not know the kind can so enqueue the job, too, when it discards a job of a dead worker.
create table jobs_on_discarded (
    -- The kind of the discarded job.
    kind text primary key,
    -- The kind of the job that is enqueued, and its options.
    enqueues text not null,
    queue text not null,
    priority integer not null,
    max_attempts integer not null,
    -- Its arguments without the discarded job, and the name of the argument that gets the discarded job.
    args text not null,
    argument text not null
) strict;

-- The new columns are at the end. All other columns are as before.
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

insert into jobs_schema_migration (version, name, oldest_program) values (3, 'progress_and_on_discarded', 1);
