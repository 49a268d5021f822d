-- Version 2 of the schema: the outputs of jobs. Programs of version 1 still work on it. They complete jobs without an output.
-- Locks: access exclusive on the view jobs.job, for a moment. Statements that read the view wait. No table is locked.

-- What a handler returned, or a note why it was not stored. A worker writes it before it moves the job from running to
-- finished. So a row counts only if the job is completed and has the same lease number. Jobs without an output have no row.
create table jobs.output (
    job_id bigint primary key,
    lease integer not null,
    value json,
    note text,
    check ((value is null) <> (note is null))
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- The two new columns are at the end, as the view promises. All other columns are as before.
create or replace view jobs.job as
select id, kind, queue, state, priority, attempt::integer, max_attempts::integer, crashes::integer,
       run_at, enqueued_at, claimed_at, finished_at, worker, lease, coalesce(tags, '{}') as tags,
       -- 'null' if the arguments were deleted from jobs.payload. Clients expect a value here, and could not read a row
       -- without one.
       coalesce(args, (select payload.args from jobs.payload where payload.job_id = job.id), 'null') as args,
       (select e.message from jobs.job_error e where e.job_id = job.id order by e.id desc limit 1) as last_error,
       flags,
       -- The output of an attempt that did not complete the job is not shown. It has another lease number, or the job has
       -- another state.
       (select o.value from jobs.output o where o.job_id = job.id and o.lease = job.lease and job.state = 'completed') as output,
       (select o.note from jobs.output o where o.job_id = job.id and o.lease = job.lease and job.state = 'completed') as output_note
from (
    -- The casts give these columns the same types as in the other two tables. If the types differed, the planner would
    -- not pass a condition on the id to the three tables, and a query by id would read all rows.
    select id, kind, queue,
           case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags
    from jobs.ready
    union all
    -- The view takes its column names from the select above. Constants have a name here, too, because PostgreSQL would
    -- generate names for them, and different ones when the view is restored from a dump.
    select id, kind, queue, 'running' as state, priority, attempt, max_attempts, crashes, run_at, enqueued_at,
           claimed_at, null as finished_at, worker, lease, tags, args, flags
    from jobs.running
    union all
    select id, kind, queue, (array['completed', 'cancelled', 'discarded'])[state], priority, attempt, max_attempts, crashes,
           run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args, flags
    from jobs.finished
) job;

comment on column jobs.job.output is 'What the handler of a completed job returned. Null if it returned nothing.';
comment on column jobs.job.output_note is 'Why the output was not stored. Null if it was stored, or if there was none.';

insert into jobs.schema_migration (version, name, oldest_program) values (2, 'outputs', 1);
