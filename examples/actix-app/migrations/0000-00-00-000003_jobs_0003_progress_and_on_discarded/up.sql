-- Version 3 of the schema: the progress of jobs, and the jobs that are enqueued when others are discarded. Programs of the
-- versions 1 and 2 still work on it. They report no progress. They enqueue no job when they discard one.
-- Locks: access exclusive on jobs.output and on the view jobs.job, for a moment. Statements that use them wait.

-- A row now also holds the progress that a running job has reported last. It is kept over the attempts of a job, so it does
-- not depend on the lease number. A row has a progress, an output, a note instead of the output, or a progress and one of
-- the two.
alter table jobs.output
    drop constraint output_check,
    add column progress_done bigint,
    add column progress_total bigint,
    add column progress_message text,
    add column progress_at timestamptz,
    add check (value is null or note is null),
    add check ((progress_at is null) = (progress_done is null) and (progress_at is null) = (progress_total is null)
               and (progress_at is null) = (progress_message is null)),
    add check (value is not null or note is not null or progress_at is not null);

-- What is enqueued when a job of a kind is discarded. Workers write it at their start, from `on_discarded` in the code. A
-- worker that does not know the kind can so enqueue the job, too, when it discards a job of a dead worker.
create table jobs.on_discarded (
    -- The kind of the discarded job.
    kind text primary key,
    -- The kind of the job that is enqueued, and its options.
    enqueues text not null,
    queue text not null,
    priority smallint not null,
    max_attempts jobs.smallint_from_1 not null,
    -- Its arguments without the discarded job, and the name of the argument that gets the discarded job.
    args json not null,
    argument text not null
);

-- Enqueues the job of a rule for a job that is discarded by the same statement. If the database refuses it, because of a
-- trigger of the application or a rule that was changed by hand, the job is discarded without it, and a failure of the job
-- says so. Otherwise the job could never end, and a rescue could free no other job.
create function jobs.enqueue_for_discarded(rule jobs.on_discarded, job_id bigint, attempt smallint, discarded json) returns bigint
language plpgsql volatile
as $$
declare
    -- The arguments are joined as text, which is compact and ends with a brace. jsonb would refuse '\u0000' in them, and
    -- write long numbers out.
    other_args text := left(rule.args::text, -1) || case rule.args::text when '{}' then '' else ',' end;
begin
    return jobs.enqueue(
        kind => rule.enqueues,
        args => (other_args || to_json(rule.argument) || ':' || discarded || '}')::json,
        queue => rule.queue,
        priority => rule.priority,
        max_attempts => rule.max_attempts
    );
exception when others then
    -- After conflicts, and if the server lacks resources or ends, the whole statement is tried again.
    if left(sqlstate, 2) in ('40', '53', '55', '57', '58') then
        raise;
    end if;
    insert into jobs.job_error (job_id, attempt, kind, message)
    values (enqueue_for_discarded.job_id, enqueue_for_discarded.attempt, 'error',
            'the job `' || rule.enqueues || '` for this discarded job was refused: ' || left(sqlerrm, 2000));
    return null;
end
$$;

-- The new columns are at the end, as the view promises. All other columns are as before.
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
       (select o.note from jobs.output o where o.job_id = job.id and o.lease = job.lease and job.state = 'completed') as output_note,
       (select o.progress_done from jobs.output o where o.job_id = job.id) as progress_done,
       (select o.progress_total from jobs.output o where o.job_id = job.id) as progress_total,
       (select o.progress_message from jobs.output o where o.job_id = job.id) as progress_message,
       (select o.progress_at from jobs.output o where o.job_id = job.id) as progress_at
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

comment on column jobs.job.progress_done is 'How much of the job is done, as its handler has reported last. Null if it has reported nothing.';
comment on column jobs.job.progress_total is 'Of how much. Null if the handler has reported nothing.';
comment on column jobs.job.progress_message is 'What the handler has said of its progress last.';
comment on column jobs.job.progress_at is 'The time at which the progress was stored.';

insert into jobs.schema_migration (version, name, oldest_program) values (3, 'progress_and_on_discarded', 1);
