-- Version 1 of the schema: the table of jobs, their failures and outputs, and the tables that workers and operators share. It only creates
-- objects, and it holds the file's write lock meanwhile.
--
-- Times are integers: microseconds since 1970, in UTC. So they sort. To read one, use
-- datetime(run_at / 1000000, 'unixepoch'). They come from SQLite's own clock, whose resolution is one millisecond.
-- If you use `diesel print-schema`, exclude these tables: filter = { except_tables = ["^jobs_"] }.

create table jobs_schema_migration (
    version integer primary key,
    name text not null,
    applied_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- The oldest schema version whose programs still work on this version. Null if only programs of this version do.
    oldest_program integer
) strict;

-- With `autoincrement`, SQLite does not assign the id of a pruned job to a new job. Otherwise an old lease could match
-- the new job.
create table jobs_job (
    id integer primary key autoincrement,
    state text not null default 'available' check (state in ('available', 'running', 'completed', 'cancelled', 'discarded')),
    kind text not null check (kind <> ''),
    -- A worker serves patterns of queues, in which `*` stands for any characters.
    queue text not null default 'default' check (queue <> '' and instr(queue, '*') = 0),
    priority integer not null default 0 check (priority between -32768 and 32767),
    attempt integer not null default 0,
    max_attempts integer not null default 25 check (max_attempts > 0),
    crashes integer not null default 0,
    lease integer not null default 0,
    -- One bit for each feature of a later version that this job uses. A program that does not know one of the bits does
    -- not change the row.
    flags integer not null default 0,
    run_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    enqueued_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    claimed_at integer,
    finished_at integer,
    expires_at integer,
    worker text,
    tags text not null default '[]',
    args text not null default '{}',
    -- The trace context of the enqueue, as `traceparent` of the W3C says it. Null if there is none.
    traceparent text,
    -- The list of its rules, each with a name and a key. A sequence comes first. Null for jobs without rules; those with rules have the flag 1.
    -- {"name": .., "key": .., "rule": {"concurrency": {"most": 5}}}: a limit. At most `most` jobs of the key run at once. With a "tenant" beside
    -- the key, the job has the flag 256, and tenants take turns.
    -- .. "rule": {"sequence": {"on_discard": "halt"}}}: one at a time, in the order of the ids, with the flag 4. If the job is discarded, the
    -- sequence halts, or skips it ("skip").
    -- .. "rule": {"rate": {"limit": 100, "per": 60000000, "burst": 10}}}: at most `limit` jobs start in `per` microseconds, and at most `burst` at
    -- once, with the flag 8.
    -- A limit or a rate may have "on_full": "discard" or "cancel_oldest". Then the job does not wait, and has the flag 64.
    rules text,
    -- A job with several rules has the flag 128 and a lane, in which jobs with the same rules and keys wait.
    lane text,
    -- Where a held job with several rules waits, if it is another place than at first: at one of its rules, or in its lane after its turn in the
    -- sequence has come. The flags 4 and 8 say whether this place is a sequence or a rate.
    waits_at text,
    -- A held job waits until its rules admit it. It has the flag 2, its time is here, and `run_at` is in the year 9999. So claims do not
    -- read it.
    due_at integer,
    -- Why a held job cannot be admitted now: 0: nothing but its rules. 1: it is not due. 2: admission has found its queue or its kind paused.
    held_back integer not null default 0,
    -- The rule for which it waits. For a job that waits in a lane, the name is empty.
    place text generated always as (coalesce(waits_at, case
        when lane is null or rules -> '$[0].rule.sequence' is not null then rules -> '$[0]' else json_object('name', '', 'key', lane) end)) virtual,
    limit_name text generated always as (place ->> '$.name') virtual,
    limit_key text generated always as (place ->> '$.key') virtual,
    -- How many jobs may run at once there.
    most integer generated always as (coalesce(place ->> '$.rule.concurrency.most', 1)) virtual,
    -- When a job with the flag 32 expires: if its first attempt has not started by then, it is cancelled. A later sweep sets it to null.
    start_by integer,
    -- How long after its time it expires, in microseconds.
    start_after integer
) strict;

-- Waiting jobs in the order of the claim. The last three columns are the reasons for which a claim passes over a job: a
-- kind that the worker does not know, crashes after which a job must run alone, a flag that the worker does not know.
-- So a claim passes over such jobs without reading their rows.
create index jobs_job_claim on jobs_job (queue, priority desc, run_at, id, kind, crashes, flags) where state = 'available';

-- Waiting jobs with crashes: few, if any.
create index jobs_job_crashed on jobs_job (crashes) where state = 'available' and crashes > 0;

-- Jobs under a lease, for the rescue.
create index jobs_job_running on jobs_job (worker) where state = 'running';

-- Ended jobs in the order in which the pruner deletes them.
create index jobs_job_expiry on jobs_job (expires_at) where expires_at is not null;

-- One row per failed attempt.
create table jobs_job_error (
    id integer primary key,
    job_id integer not null,
    attempt integer not null,
    kind text not null,
    message text not null,
    -- `started_at` is when the attempt was claimed, `worker` is the worker that claimed it. Both are null if there was
    -- no attempt, for example because the job was cancelled while it waited.
    started_at integer,
    worker text,
    at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- Failures with the same fingerprint have the same text, apart from numbers and ids. `place` is the file and line of a panic.
    -- `actor` is the operator who has cancelled the job.
    fingerprint integer,
    place text,
    backtrace text,
    actor text
) strict;

create index jobs_job_error_job on jobs_job_error (job_id, id);

-- Finds the jobs that have failed in the same way.
create index jobs_job_error_fingerprint on jobs_job_error (fingerprint, job_id) where fingerprint is not null;

-- One row per worker process. Its heartbeat extends all its leases.
create table jobs_worker (
    id text primary key,
    host text not null,
    pid integer not null,
    queues text not null,
    lease_micros integer not null,
    started_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    heartbeat_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- The version of the worker's program, its queues with their slots: {"mail": 16}, the slots of all its queues together (null: no limit), the kinds
    -- that it knows, and the schedules that it declares: {"report": {"expression": "0 2 * * *", ..}}, with its rules for `jobs_on_discarded`. An operator
    -- may ask a worker to claim nothing more (quiet), or to stop. It reads this with each heartbeat.
    version text,
    slots text,
    slots_total integer,
    kinds text,
    schedules text,
    discard_rules text,
    asked text check (asked in ('quiet', 'stop')),
    asked_at integer,
    asked_by text,
    -- When the worker began to drain: it claims no more jobs, and ends. If it is killed before that, its jobs are released.
    draining_at integer,
    -- A rescue has moved other jobs of this dead worker and left some: it did not have a single job when it died.
    had_others integer not null default 0 check (had_others in (0, 1))
) strict, without rowid;

-- Settings of queues at run time. A queue without a row has the defaults.
create table jobs_queue (
    name text primary key,
    paused integer not null default 0 check (paused in (0, 1)),
    -- Who paused a queue, when and why. `slots` is how many jobs of the queue each worker runs at once, instead of the number that
    -- the worker was started with. Null: as started.
    paused_at integer,
    paused_by text,
    paused_reason text,
    slots integer check (slots between 0 and 10000)
) strict, without rowid;

-- The environment of the file, and whether it is frozen. At most one row. The row is copied with the file. So the copy
-- of a frozen file is frozen, and workers of another environment do not serve a copy.
create table jobs_installation (
    only_row integer primary key default 1 check (only_row = 1),
    environment text,
    frozen_at integer,
    frozen_by text,
    frozen_reason text
) strict;

create table jobs_schedule (
    name text primary key,
    kind text not null,
    expression text not null,
    timezone text not null,
    catch_up text not null check (catch_up in ('skip', 'last', 'all')),
    last_tick integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- The newest job that a tick or an operator has enqueued for it, and when.
    last_job integer,
    last_run_at integer,
    flags integer not null default 0,
    paused integer not null default 0 check (paused in (0, 1)),
    -- An operator may add schedules and change those of the code. `added_by` is set for schedules that only exist here.
    -- `changed_by` is set if the expression, time zone or `catch_up` is an operator's. Workers do not overwrite these. What the code
    -- declares is then in `declared`, and the row has the flag 1.
    args text,
    -- Null: the default of the kind.
    queue text,
    priority integer,
    max_attempts integer,
    added_by text,
    changed_by text,
    changed_at integer,
    declared text,
    paused_at integer,
    paused_by text,
    paused_reason text
) strict, without rowid;

-- What a handler returned, or a note why it was not stored. It counts only if the job is completed and has the same lease
-- number. Jobs without an output have no row.
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

-- A trigger, so that no output is left behind, whoever deletes the job.
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
    argument text not null,
    -- Its rules as in `jobs_job`, and how long after the discard its first attempt may start. Null: it has none, and does not expire.
    rules text,
    expires_micros integer
) strict;

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
    action text not null check (action in ('retry', 'run_now', 'reschedule', 'cancel', 'delete', 'discard', 'reprioritise', 'move', 'rerun')),
    -- The new time, priority or queue.
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
