-- Worker processes, what operators set and did, and how much work was done.

-- Returns 1024 bits. For each of these queues one bit is set. Two queues may have the same bit. Then an enqueue may
-- send a notification although no idle worker serves its queue. A pattern of queues, such as 'tenant-*', sets all bits.
create function jobs.queue_filter(queues text[]) returns bit(1024)
language sql immutable parallel safe
as $$
    select coalesce(bit_or(case when strpos(queue, '*') > 0 then repeat('1', 1024)::bit(1024)
                                else set_bit(repeat('0', 1024)::bit(1024), hashtext(queue) & 1023, 1) end), repeat('0', 1024)::bit(1024))
    from unnest(queues) as queue
$$;

-- One row per worker process. Its heartbeat extends all its leases. An enqueue reads `queue_filter` to check whether
-- this worker may serve its queue. The check takes the same time for one queue and for ten thousand.
create table jobs.worker (
    id uuid primary key,
    host text not null,
    pid integer not null,
    queues text[] not null,
    -- Every rescue computes `now() - lease`. A lease of thousands of years would make it fail.
    lease interval not null check (lease between interval '0' and interval '3650 days'),
    started_at jobs.instant not null default now(),
    heartbeat_at jobs.instant not null default now(),
    idle boolean not null default false,
    queue_filter bit(1024) not null generated always as (jobs.queue_filter(queues)) stored,
    -- The version of the worker's program, its queues with their slots: {"mail": 16}, the slots of all its queues together (null: no limit), the kinds
    -- that it knows, and the schedules that it declares: {"report": {"expression": "0 2 * * *", ..}}, with its rules for `jobs.on_discarded`. An operator
    -- may ask a worker to claim nothing more (quiet), or to stop. It reads this with each heartbeat.
    version text,
    slots json,
    slots_total integer,
    kinds text[],
    schedules json,
    discard_rules json,
    asked text check (asked in ('quiet', 'stop')),
    asked_at timestamptz,
    asked_by text,
    -- When the worker began to drain: it claims no more jobs, and ends. If it is killed before that, its jobs are released.
    draining_at timestamptz,
    -- A rescue has moved other jobs of this dead worker and left some: it did not have a single job when it died.
    had_others boolean not null default false
) with (
    -- Few rows. Each is updated several times per second, and every enqueue reads them.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- Settings of queues at run time. A queue without a row has the defaults.
create table jobs.queue (
    name text collate "C" primary key,
    paused boolean not null default false,
    -- Who paused a queue, when and why. `slots` is how many jobs of the queue each worker runs at once, instead of the number that
    -- the worker was started with. Null: as started.
    paused_at timestamptz,
    paused_by text,
    paused_reason text,
    slots integer check (slots between 0 and 10000)
);

-- The environment of the database, and whether it is frozen. At most one row. The row is copied with the data. So the
-- copy of a frozen database is frozen, and workers of another environment do not serve a copy.
create table jobs.installation (
    only_row boolean primary key default true check (only_row),
    environment text,
    frozen_at timestamptz,
    frozen_by text,
    frozen_reason text
);

create table jobs.schedule (
    name text collate "C" primary key,
    kind text collate "C" not null,
    expression text not null,
    timezone text not null,
    catch_up text not null check (catch_up in ('skip', 'last', 'all')),
    last_tick jobs.instant not null default now(),
    -- The newest job that a tick or an operator has enqueued for it, and when.
    last_job bigint,
    last_run_at jobs.instant,
    flags integer not null default 0,
    paused boolean not null default false,
    -- An operator may add schedules and change those of the code. `added_by` is set for schedules that only exist here.
    -- `changed_by` is set if the expression, time zone or `catch_up` is an operator's. Workers do not overwrite these. What the code
    -- declares is then in `declared`, and the row has the flag 1.
    args json,
    -- Null: the default of the kind.
    queue text collate "C",
    priority smallint,
    max_attempts jobs.smallint_from_1,
    added_by text,
    changed_by text,
    changed_at timestamptz,
    declared json,
    paused_at timestamptz,
    paused_by text,
    paused_reason text
);

-- Settings of kinds at run time. A kind without a row has the defaults. Workers claim no jobs of a paused kind. They read the
-- table once a second.
create table jobs.kind (
    name text collate "C" primary key,
    paused boolean not null default false,
    paused_at timestamptz,
    paused_by text,
    paused_reason text
);

-- How long ended jobs are kept, instead of the time that the worker's code says. It applies to jobs that end from now on.
create table jobs.retention (
    -- The empty text stands for all kinds that have no row of their own.
    kind text collate "C" not null,
    -- As in jobs.finished.
    state smallint not null check (state between 1 and 3),
    -- Null: for ever. Zero: not at all.
    keep interval check (keep between interval '0' and interval '36500 days'),
    primary key (kind, state)
);

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
    action text not null check (action in ('retry', 'run_now', 'reschedule', 'cancel', 'delete', 'discard', 'reprioritise', 'move', 'rerun')),
    -- The new time, priority or queue.
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
    queue text collate "C" not null,
    kind text collate "C" not null,
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

-- Each enqueue asks whether a worker is idle. Without this index only a scan of the whole table answers that, and where `enable_seqscan`
-- is off, such a scan counts as so expensive that the server compiles the statement at each execution.
create index worker_idle on jobs.worker (id) where idle;

