-- Back to version 2 of the schema. It deletes the progress of all jobs and the list of jobs that are enqueued when others are
-- discarded. It deletes no job and no output.
-- Locks: it holds the file's write lock while it creates objects. It copies the rows of jobs_output.

-- The permission to delete jobs is for one revert, and this one deletes none.
drop table if exists main.jobs_allow_drop;

drop view jobs_job_view;
drop trigger jobs_job_output;
drop table jobs_on_discarded;

alter table jobs_output rename to jobs_output_3;

create table jobs_output (
    job_id integer primary key,
    lease integer not null,
    value text,
    note text,
    check ((value is null) <> (note is null))
) strict;

insert into jobs_output (job_id, lease, value, note)
select job_id, lease, value, note from jobs_output_3 where value is not null or note is not null;
drop table jobs_output_3;

-- A trigger, so that no output is left behind, whoever deletes the job: this program, an older one, or a person.
create trigger jobs_job_output after delete on jobs_job begin
    delete from jobs_output where job_id = old.id;
end;

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

delete from jobs_schema_migration where version = 3;
