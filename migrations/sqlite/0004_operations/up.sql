-- Version 4 of the schema: what operators set at run time, what they did, the history of the work, and the trace contexts of
-- jobs. Programs of the versions 1 to 3 still work on it. They do not see that a kind is paused, and they do not change
-- schedules that an operator has changed.
-- Locks: it holds the file's write lock while it creates objects and builds an index.

drop view jobs_job_view;

-- The trace context of the enqueue, as `traceparent` of the W3C says it. Null if there is none.
alter table jobs_job add column traceparent text;

-- Who paused a queue, when and why. `slots` is how many jobs of the queue each worker runs at once, instead of the number that
-- the worker was started with. Null: as started.
alter table jobs_queue add column paused_at integer;
alter table jobs_queue add column paused_by text;
alter table jobs_queue add column paused_reason text;
alter table jobs_queue add column slots integer check (slots between 0 and 10000);

-- Settings of kinds at run time. A kind without a row has the defaults. Workers claim no jobs of a paused kind. They read the
-- table once a second.
create table jobs_kind (
    name text primary key,
    paused integer not null default 0 check (paused in (0, 1)),
    paused_at integer,
    paused_by text,
    paused_reason text
) strict, without rowid;

-- How long ended jobs are kept, instead of the time that the worker's code says. It applies to jobs that end from now on.
create table jobs_retention (
    -- The empty text stands for all kinds that have no row of their own.
    kind text not null,
    state text not null check (state in ('completed', 'cancelled', 'discarded')),
    -- Null: for ever. Zero: not at all.
    keep_micros integer check (keep_micros between 0 and 3153600000000000),
    primary key (kind, state)
) strict, without rowid;

-- The version of the worker's program, its queues with their slots: {"mail": 16}, and the kinds that it knows. An operator may ask a worker to claim
-- nothing more (quiet), or to stop. It reads this with each heartbeat.
alter table jobs_worker add column version text;
alter table jobs_worker add column slots text;
alter table jobs_worker add column kinds text;
alter table jobs_worker add column asked text check (asked in ('quiet', 'stop'));
alter table jobs_worker add column asked_at integer;
alter table jobs_worker add column asked_by text;

-- An operator may add schedules and change those of the code. `added_by` is set for schedules that only exist here.
-- `changed_by` is set if the expression, time zone or `catch_up` is an operator's. Workers do not overwrite these. What the code
-- declares is then in `declared`. The rows have the flag 1, so that programs of earlier versions leave them alone.
alter table jobs_schedule add column args text;
-- Null: the default of the kind.
alter table jobs_schedule add column queue text;
alter table jobs_schedule add column priority integer;
alter table jobs_schedule add column max_attempts integer;
alter table jobs_schedule add column added_by text;
alter table jobs_schedule add column changed_by text;
alter table jobs_schedule add column changed_at integer;
alter table jobs_schedule add column declared text;
alter table jobs_schedule add column paused_at integer;
alter table jobs_schedule add column paused_by text;
alter table jobs_schedule add column paused_reason text;

-- Failures with the same fingerprint have the same text, apart from numbers and ids. `place` is the file and line of a panic.
-- `actor` is the operator who has cancelled the job.
alter table jobs_job_error add column fingerprint integer;
alter table jobs_job_error add column place text;
alter table jobs_job_error add column backtrace text;
alter table jobs_job_error add column actor text;

-- Finds cancelled and discarded jobs among millions of completed ones. Completed jobs have no entry, so it costs them nothing.
create index jobs_job_unsuccessful on jobs_job (state, id) where state in ('cancelled', 'discarded');

-- What operators did.
create table jobs_audit (
    id integer primary key autoincrement,
    at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- The name that the operator gave, or the user of the machine.
    actor text not null,
    -- The verb: pause, resume, retry, cancel, ..
    action text not null,
    -- What it was done to: job 7, queue mail, kind charge, operation 3, ..
    target text not null,
    detail text
) strict;

-- Actions on all jobs that match a filter. Workers and the command line do them in batches, each in a transaction that also
-- updates the row. So an operation goes on after a crash, and is done once.
create table jobs_operation (
    id integer primary key autoincrement,
    action text not null check (action in ('retry', 'run_now', 'cancel', 'delete', 'discard', 'reprioritise', 'move', 'rerun')),
    -- The new priority, or the new queue.
    argument text,
    filter text not null,
    actor text not null,
    created_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- It has come to this id. It ends at `last_id`, so that jobs that were enqueued later are not touched.
    next_id integer not null default 0,
    last_id integer not null,
    -- How many jobs it has looked at, and how many it has changed.
    examined integer not null default 0,
    changed integer not null default 0,
    finished_at integer,
    cancelled_by text,
    problem text
) strict;

-- The operations that are not finished: few, if any.
create index jobs_operation_open on jobs_operation (id) where finished_at is null;

-- What workers did: a row per worker, minute, queue and kind. Rows are only inserted. Later they are joined to one row per
-- quarter of an hour, and then to one per hour.
create table jobs_history (
    id integer primary key autoincrement,
    -- The beginning of the time that the row is about.
    at integer not null,
    minutes integer not null default 1 check (minutes in (1, 15, 60)),
    -- The rows that a worker has written together. It repeats the statement if the reply was lost, and then finds them.
    batch text,
    queue text not null,
    kind text not null,
    completed integer not null default 0,
    retried integer not null default 0,
    discarded integer not null default 0,
    cancelled integer not null default 0,
    snoozed integer not null default 0,
    -- How often the wait from `run_at` to the start, and the run, had a duration of each bin, as a list in JSON. Bin 0 is below a
    -- millisecond. The upper border of each bin is the square root of two times that of the bin before.
    waits text not null default '[]',
    runs text not null default '[]',
    -- The sums of both, in seconds.
    wait_seconds real not null default 0,
    run_seconds real not null default 0
) strict;

create index jobs_history_at on jobs_history (minutes, at);

-- How many jobs were in each state when a worker last counted them. At most one row.
create table jobs_sample (
    only_row integer primary key default 1 check (only_row = 1),
    -- When the count ended. Null: there was none yet.
    at integer,
    -- A worker that counts sets this first, so that no other one counts.
    next_at integer not null default 0,
    -- Why it is not counted at the moment.
    resting text,
    took_seconds real not null default 0,
    -- One object per queue and kind.
    counts text not null default '[]'
) strict;

-- The new column is at the end. All other columns are as before.
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

insert into jobs_schema_migration (version, name, oldest_program) values (4, 'operations', 1);
