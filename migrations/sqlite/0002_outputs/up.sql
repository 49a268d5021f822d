-- Version 2 of the schema: the outputs of jobs. Programs of version 1 still work on it. They complete jobs without an output.
-- Locks: it holds the file's write lock while it creates objects. It changes no row of another table.

-- What a handler returned, or a note why it was not stored. It counts only if the job is completed and has the same lease
-- number. Jobs without an output have no row.
create table jobs_output (
    job_id integer primary key,
    lease integer not null,
    value text,
    note text,
    check ((value is null) <> (note is null))
) strict;

-- A trigger, so that no output is left behind, whoever deletes the job: this program, an older one, or a person.
create trigger jobs_job_output after delete on jobs_job begin
    delete from jobs_output where job_id = old.id;
end;

-- The two new columns are at the end. All other columns are as before.
drop view jobs_job_view;

create view jobs_job_view as
select id, kind, queue,
       case when state <> 'available' then state
            when run_at <= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) then 'available'
            when attempt > 0 then 'retrying' else 'scheduled' end as state,
       priority, attempt, max_attempts, crashes, run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args,
       (select e.message from jobs_job_error e where e.job_id = jobs_job.id order by e.id desc limit 1) as last_error,
       flags,
       (select o.value from jobs_output o where o.job_id = jobs_job.id and o.lease = jobs_job.lease and jobs_job.state = 'completed') as output,
       (select o.note from jobs_output o where o.job_id = jobs_job.id and o.lease = jobs_job.lease and jobs_job.state = 'completed') as output_note
from jobs_job;

insert into jobs_schema_migration (version, name, oldest_program) values (2, 'outputs', 1);
