-- Version 4 of the schema: what operators set at run time, what they did, the history of the work, and the trace contexts of
-- jobs. Programs of the versions 1 to 3 still work on it. They do not see that a kind is paused, they do not change schedules
-- that an operator has changed, and a job that they move loses its trace context.
-- Locks: access exclusive on the tables of jobs, queues, workers, schedules and failures, for a moment each, and share on
-- jobs.finished and jobs.job_error while two indexes are built. Statements that write to these tables wait meanwhile. All other
-- objects are new.

-- The trace context of the enqueue, as `traceparent` of the W3C says it. Null if there is none.
alter table jobs.ready add column traceparent text;
alter table jobs.running add column traceparent text;
alter table jobs.finished add column traceparent text;

-- Who paused a queue, when and why. `slots` is how many jobs of the queue each worker runs at once, instead of the number that
-- the worker was started with. Null: as started.
alter table jobs.queue
    add column paused_at timestamptz,
    add column paused_by text,
    add column paused_reason text,
    add column slots integer check (slots between 0 and 10000);

-- Settings of kinds at run time. A kind without a row has the defaults. Workers claim no jobs of a paused kind. They read the
-- table once a second.
create table jobs.kind (
    name text primary key,
    paused boolean not null default false,
    paused_at timestamptz,
    paused_by text,
    paused_reason text
);

-- How long ended jobs are kept, instead of the time that the worker's code says. It applies to jobs that end from now on.
create table jobs.retention (
    -- The empty text stands for all kinds that have no row of their own.
    kind text not null,
    -- As in jobs.finished.
    state smallint not null check (state between 1 and 3),
    -- Null: for ever. Zero: not at all.
    keep interval check (keep between interval '0' and interval '36500 days'),
    primary key (kind, state)
);

-- The version of the worker's program, its queues with their slots: {"mail": 16}, and the kinds that it knows. An operator may ask a worker to claim
-- nothing more (quiet), or to stop. It reads this with each heartbeat.
alter table jobs.worker
    add column version text,
    add column slots json,
    add column kinds text[],
    add column asked text check (asked in ('quiet', 'stop')),
    add column asked_at timestamptz,
    add column asked_by text;

-- An operator may add schedules and change those of the code. `added_by` is set for schedules that only exist here.
-- `changed_by` is set if the expression, time zone or `catch_up` is an operator's. Workers do not overwrite these. What the code
-- declares is then in `declared`. The rows have the flag 1, so that programs of earlier versions leave them alone.
alter table jobs.schedule
    add column args json,
    -- Null: the default of the kind.
    add column queue text,
    add column priority smallint,
    add column max_attempts jobs.smallint_from_1,
    add column added_by text,
    add column changed_by text,
    add column changed_at timestamptz,
    add column declared json,
    add column paused_at timestamptz,
    add column paused_by text,
    add column paused_reason text;

-- Failures with the same fingerprint have the same text, apart from numbers and ids. `place` is the file and line of a panic.
-- `actor` is the operator who has cancelled the job.
alter table jobs.job_error
    add column fingerprint bigint,
    add column place text,
    add column backtrace text,
    add column actor text;

-- Finds the newest failures of all jobs.
create unique index job_error_newest on jobs.job_error (id);

-- Finds cancelled and discarded jobs among millions of completed ones. Completed jobs have no entry, so it costs them nothing.
create index finished_unsuccessful on jobs.finished (state, id) where state > 1;

-- What operators did.
create table jobs.audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    -- The name that the operator gave, or the user of the machine.
    actor text not null,
    -- The verb: pause, resume, retry, cancel, ..
    action text not null,
    -- What it was done to: job 7, queue mail, kind charge, operation 3, ..
    target text not null,
    detail json
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- Actions on all jobs that match a filter. Workers and the command line do them in batches, each in a transaction that locks the
-- row. So an operation goes on after a crash, and is done once.
create table jobs.operation (
    id bigint generated always as identity primary key,
    action text not null check (action in ('retry', 'run_now', 'cancel', 'delete', 'discard', 'reprioritise', 'move', 'rerun')),
    -- The new priority, or the new queue.
    argument text,
    filter json not null,
    actor text not null,
    created_at timestamptz not null default now(),
    -- It has come to this id. It ends at `last_id`, so that jobs that were enqueued later are not touched.
    next_id bigint not null default 0,
    last_id bigint not null,
    -- How many jobs it has looked at, and how many it has changed.
    examined bigint not null default 0,
    changed bigint not null default 0,
    finished_at timestamptz,
    cancelled_by text,
    problem text
);

-- The operations that are not finished: few, if any.
create index operation_open on jobs.operation (id) where finished_at is null;

-- What workers did: a row per worker, minute, queue and kind. Rows are only inserted. Later they are joined to one row per
-- quarter of an hour, and then to one per hour.
create table jobs.history (
    id bigint generated always as identity primary key,
    -- The beginning of the time that the row is about.
    at timestamptz not null,
    minutes smallint not null default 1 check (minutes in (1, 15, 60)),
    -- The rows that a worker has written together. It repeats the statement if the reply was lost, and then finds them.
    batch uuid,
    queue text not null,
    kind text not null,
    completed bigint not null default 0,
    retried bigint not null default 0,
    discarded bigint not null default 0,
    cancelled bigint not null default 0,
    snoozed bigint not null default 0,
    -- How often the wait from `run_at` to the start, and the run, had a duration of each bin. Bin 0 is below a millisecond. The
    -- upper border of each bin is the square root of two times that of the bin before.
    waits integer[] not null default '{}',
    runs integer[] not null default '{}',
    -- The sums of both, in seconds.
    wait_seconds double precision not null default 0,
    run_seconds double precision not null default 0
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

create index history_at on jobs.history (minutes, at);

-- How many jobs were in each state when a worker last counted them. At most one row. The worker that locks it, when it is
-- due, counts. It sets `next_at` first and gives the lock back, because a transaction that is open for as long as the count
-- would keep dead rows of the other tables.
create table jobs.sample (
    only_row boolean primary key default true check (only_row),
    -- When the count ended. Null: there was none yet.
    at timestamptz,
    next_at timestamptz not null default 'epoch',
    -- Why it is not counted at the moment.
    resting text,
    took_seconds double precision not null default 0,
    -- One object per queue and kind.
    counts json not null default '[]'
) with (fillfactor = 50);

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
       (select o.progress_at from jobs.output o where o.job_id = job.id) as progress_at,
       traceparent
from (
    -- The casts give these columns the same types as in the other two tables. If the types differed, the planner would
    -- not pass a condition on the id to the three tables, and a query by id would read all rows.
    select id, kind, queue,
           case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags, traceparent
    from jobs.ready
    union all
    -- The view takes its column names from the select above. Constants have a name here, too, because PostgreSQL would
    -- generate names for them, and different ones when the view is restored from a dump.
    select id, kind, queue, 'running' as state, priority, attempt, max_attempts, crashes, run_at, enqueued_at,
           claimed_at, null as finished_at, worker, lease, tags, args, flags, traceparent
    from jobs.running
    union all
    select id, kind, queue, (array['completed', 'cancelled', 'discarded'])[state], priority, attempt, max_attempts, crashes,
           run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args, flags, traceparent
    from jobs.finished
) job;

comment on column jobs.job.traceparent is 'The trace context of the enqueue. Null if there is none.';

insert into jobs.schema_migration (version, name, oldest_program) values (4, 'operations', 1);
