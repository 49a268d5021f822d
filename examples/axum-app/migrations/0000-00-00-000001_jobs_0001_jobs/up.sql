-- Version 1 of the schema. It only creates objects, and so it locks no table of the application. It is written in several files,
-- which are joined in the order of their numbers.

-- The tables that a job moves through. A job waits in jobs.ready or in jobs.held, runs in jobs.running, and is kept in jobs.finished.

create schema jobs;

-- All objects are in this schema. `diesel print-schema` reads only `public`, so it does not print them.
comment on schema jobs is 'Background jobs. Read them through the view jobs.job and add them with the function jobs.enqueue(..); the tables change between versions.';

create table jobs.schema_migration (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    -- The oldest schema version whose programs still work on this version. Null if only programs of this version do.
    oldest_program integer
);

create sequence jobs.job_id as bigint;

-- Conditions on values are domains and not check constraints. The server parses the check constraints of a table for
-- every statement that inserts into it. This took more than a third of the time of an enqueue. It parses the condition
-- of a domain once per session.

-- 'infinity' is a valid timestamptz, but clients cannot represent it. Every claim that reads such a row would fail.
create domain jobs.instant as timestamptz check (value between '0001-01-01' and '9999-12-31');
create domain jobs.tags as text[] check (array_ndims(value) = 1 and array_position(value, null) is null);
create domain jobs.smallint_from_0 as smallint check (value >= 0);
create domain jobs.smallint_from_1 as smallint check (value > 0);
create domain jobs.integer_from_0 as integer check (value >= 0);

-- Waiting jobs: due now, due later, or waiting for a retry. Rows are small. Each is inserted once and deleted once,
-- at a high rate. Two indexes contain every row: `ready_claim`, in the order of the claim, and `ready_id`, for queries
-- of one job.
-- `args` is null if the arguments are large: see jobs.payload.
create table jobs.ready (
    id bigint not null default nextval('jobs.job_id'),
    run_at jobs.instant not null default clock_timestamp(),
    enqueued_at jobs.instant not null default clock_timestamp(),
    lease jobs.integer_from_0 not null default 0,
    -- One bit for each feature of a later version that this job uses. A program that does not know one of the bits does
    -- not change the row.
    flags integer not null default 0,
    priority smallint not null default 0,
    attempt jobs.smallint_from_0 not null default 0,
    max_attempts jobs.smallint_from_1 not null default 25,
    crashes jobs.smallint_from_0 not null default 0,
    kind text collate "C" not null,
    queue text collate "C" not null default 'default',
    tags jobs.tags,
    args json,
    -- The trace context of the enqueue, as `traceparent` of the W3C says it. Null if there is none.
    traceparent text,
    -- The list of its rules, each with a name and a key. A sequence comes first. Null for jobs without rules; those with rules have the flag 1.
    -- {"name": .., "key": .., "rule": {"concurrency": {"most": 5}}}: a limit. At most `most` jobs of the key run at once. With a "tenant" beside
    -- the key, the job has the flag 256, and tenants take turns.
    -- .. "rule": {"sequence": {"on_discard": "halt"}}}: one at a time, in the order of the ids, with the flag 4. If the job is discarded, the
    -- sequence halts, or skips it ("skip").
    -- .. "rule": {"rate": {"limit": 100, "per": 60000000, "burst": 10}}}: at most `limit` jobs start in `per` microseconds, and at most `burst` at
    -- once, with the flag 8.
    -- A limit or a rate may have "on_full": "discard" or "cancel_oldest". Then the job does not wait, and has the flag 64 (see jobs.full_jobs).
    -- A job with several rules has the flag 128 (see jobs.free_in_lane).
    rules json
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 50000
);

-- The index is unique so that it can be the replica identity: the key that identifies a deleted row in logical
-- replication. Uniqueness costs nothing, because `id` is the last column. Without a replica identity, every claim would
-- fail after `create publication .. for all tables`. `replica identity full` is not possible: a subscriber would
-- compare `args` and stop, because json has no equality operator.
create unique index ready_claim on jobs.ready (queue, priority desc, run_at, id);
alter table jobs.ready replica identity using index ready_claim;

-- Finds one job by its id, even among a million waiting jobs. It costs a fifth more server time per row of a bulk
-- insert. A BRIN index costs half of that while rows are only inserted, and more after a vacuum. If rows are inserted
-- and deleted in any order, a query through a BRIN index reads the whole table.
create index ready_id on jobs.ready (id);

-- After a vacuum of the empty table, the planner treats the table as empty until the next `analyze`, however many jobs
-- are inserted. All indexes then have the same estimated cost, and a query by id or a join would read a whole index.
-- These statistics state that an id is rare and that the rows are stored in the order of `id`. With them, the estimated
-- cost of reading all rows is higher than the cost of reading one.
alter table jobs.ready alter column id set (n_distinct = 1000000000);
insert into jobs.ready (id, kind, queue, args) select id, '', '', '{}' from generate_series(1, 100) id;
analyze jobs.ready (id);
delete from jobs.ready;

-- Waiting jobs with crashes: few, if any.
create index ready_crashed on jobs.ready (crashes) where crashes > 0;

-- Jobs under a lease: one row for each job that is running or prefetched.
create table jobs.running (
    id bigint primary key,
    run_at timestamptz not null,
    enqueued_at timestamptz not null,
    claimed_at timestamptz not null default now(),
    lease integer not null,
    flags integer not null default 0,
    priority smallint not null,
    attempt smallint not null,
    max_attempts smallint not null,
    crashes smallint not null,
    worker uuid not null,
    kind text collate "C" not null,
    queue text collate "C" not null,
    tags text[],
    args json,
    traceparent text,
    rules json
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index running_crashed on jobs.running (crashes) where crashes > 0;

-- Ended jobs: completed (1), cancelled (2), discarded (3). Rows are never updated. The pruner deletes them after their
-- retention. An operator's `retry` moves a row back to jobs.ready.
create table jobs.finished (
    id bigint primary key,
    run_at timestamptz not null,
    enqueued_at timestamptz not null,
    claimed_at timestamptz,
    finished_at timestamptz not null default now(),
    expires_at timestamptz,
    lease integer not null,
    flags integer not null default 0,
    state smallint not null check (state between 1 and 3),
    priority smallint not null,
    attempt smallint not null,
    max_attempts smallint not null,
    crashes smallint not null,
    worker uuid,
    kind text collate "C" not null,
    queue text collate "C" not null,
    tags text[],
    args json,
    traceparent text,
    rules json
) with (
    -- With the default scale factor, autovacuum would start only after a fifth of a long history is dead.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05
);

create index finished_expiry on jobs.finished (expires_at) where expires_at is not null;

-- Large arguments: more than 2000 bytes. They are written once and stay here while their job moves between the tables.
create table jobs.payload (
    job_id bigint primary key,
    args json not null
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- The trigger of jobs.ready calls this function for each inserted row whose `args` are large, or are null although the
-- job was never claimed. It moves large arguments to jobs.payload. It accepts null only if jobs.payload already has the
-- arguments of the job. The trigger does not fire for a claimed job that comes back with null.
--
-- `security definer`: it runs with the rights of the schema's owner. So a role that enqueues needs no right to read the
-- arguments of other jobs. `execute` is revoked from public, so that no other role can use it as a trigger on its own
-- table.
create function jobs.set_payload_aside() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if octet_length(new.args::text) > 262144 then
        raise exception 'jobs.ready: the arguments of a job of kind % take more than 262144 bytes', left(new.kind, 200)
            using errcode = '22023';
    end if;
    if new.args is not null then
        insert into jobs.payload (job_id, args) values (new.id, new.args);
        new.args := null;
    elsif not exists (select from jobs.payload where job_id = new.id) then
        raise exception 'jobs.ready: job % of kind % has no args; write {} where it takes none', new.id, new.kind
            using errcode = '23502';
    end if;
    return new;
end
$$;

revoke execute on function jobs.set_payload_aside() from public;

create trigger set_payload_aside before insert on jobs.ready
    for each row when (pg_column_size(new.args) > 2000 or new.args is null and new.lease = 0) execute function jobs.set_payload_aside();

-- Finds cancelled and discarded jobs among millions of completed ones. Completed jobs have no entry, so it costs them nothing.
create index finished_unsuccessful on jobs.finished (state, id) where state > 1;

-- What is kept of a job's attempts: failures, output and progress, and the rows that could not be moved.

-- One row per failed attempt.
create table jobs.job_error (
    job_id bigint not null,
    id bigint generated always as identity,
    attempt smallint not null,
    -- `started_at` is when the attempt was claimed, `worker` is the worker that claimed it. Both are null if there was
    -- no attempt, for example because the job was cancelled while it waited.
    started_at timestamptz,
    at timestamptz not null default now(),
    worker uuid,
    kind text not null,
    message text not null,
    -- Failures with the same fingerprint have the same text, apart from numbers and ids. `place` is the file and line of a panic.
    -- `actor` is the operator who has cancelled the job.
    fingerprint bigint,
    place text,
    backtrace text,
    actor text,
    primary key (job_id, id)
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- Dead letters: rows that the database refused to move, for example because another row has the same id. They are moved
-- here so that the other jobs continue.
create table jobs.dead_letter (
    number bigint generated always as identity primary key,
    id bigint not null,
    kind text collate "C" not null,
    queue text collate "C" not null,
    reason text not null,
    at timestamptz not null default now(),
    -- The whole row, as JSON.
    job json not null
);

-- What a handler returned, or a note why it was not stored. A worker writes it before it moves the job from running to
-- finished. So a row counts only if the job is completed and has the same lease number. Jobs without an output have no row.
-- A row also holds the progress that a running job has reported last. It is kept over the attempts of a job, so it does
-- not depend on the lease number. A row has a progress, an output, a note instead of the output, or a progress and one of
-- the two.
create table jobs.output (
    job_id bigint primary key,
    lease integer not null,
    value json,
    note text,
    progress_done bigint,
    progress_total bigint,
    progress_message text,
    progress_at timestamptz,
    check (value is null or note is null),
    check ((progress_at is null) = (progress_done is null) and (progress_at is null) = (progress_total is null)
           and (progress_at is null) = (progress_message is null)),
    check (value is not null or note is not null or progress_at is not null)
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- What is enqueued when a job of a kind is discarded. Workers write it at their start, from `on_discarded` in the code. A
-- worker that does not know the kind can so enqueue the job, too, when it discards a job of a dead worker.
create table jobs.on_discarded (
    -- The kind of the discarded job.
    kind text collate "C" primary key,
    -- The kind of the job that is enqueued, and its options.
    enqueues text collate "C" not null,
    queue text collate "C" not null,
    priority smallint not null,
    max_attempts jobs.smallint_from_1 not null,
    -- Its arguments without the discarded job, and the name of the argument that gets the discarded job.
    args json not null,
    argument text not null,
    -- Its rules as in `jobs.held`, and how long after the discard its first attempt may start. Null: it has none, and does not expire.
    rules json,
    expires interval
);

-- Finds the newest failures of all jobs.
create unique index job_error_newest on jobs.job_error (id);

-- Finds the jobs that have failed in the same way.
create index job_error_fingerprint on jobs.job_error (fingerprint, job_id) where fingerprint is not null;

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


-- Held jobs, which wait for a limit, for their turn in a sequence or for a token of a rate, and the tables from which admission learns when
-- they may start.

-- Whether admission can compute with this rate. The planner inserts it into the expressions that call it.
create function jobs.is_possible(rate json) returns boolean
language sql immutable
as $$
    select coalesce(
        (rate ->> 'limit')::integer > 0 and (rate ->> 'burst')::integer between 1 and 10000 and (rate ->> 'per')::bigint between 1000 and 31622400000000
        and (rate ->> 'per')::bigint * (rate ->> 'burst')::integer / (rate ->> 'limit')::integer <= 3155760000000000, false)
$$;

-- Whether admission can compute with these rules.
create function jobs.are_possible(rules json) returns boolean
language sql immutable
as $$
    select count(*) between 1 and 4 and bool_and(coalesce(
        octet_length(r ->> 'name') between 1 and 200 and octet_length(r ->> 'key') <= 200
        and case
            when r #> '{rule,rate}' is not null then jobs.is_possible(r #> '{rule,rate}')
            when r #> '{rule,sequence}' is not null then place = 1
            else (r #>> '{rule,concurrency,most}')::integer > 0
        end, false))
    from json_array_elements(case json_typeof(rules) when 'array' then rules else '[]' end) with ordinality as each (r, place)
$$;

-- The lane of jobs with these rules: the names and keys as a JSON list, or its hash. A sequence is not among them, and a 1 follows the key of a
-- rate. The function `lane` in `jobs-core/src/rules/list.rs` makes the same.
create function jobs.lane(rules json) returns text
language sql immutable
as $$
    select case when octet_length(t.text) <= 200 then t.text else 'sha256:' || encode(sha256(convert_to(t.text, 'UTF8')), 'hex') end
    from (
        select '[' || string_agg(
            to_json(r ->> 'name')::text || ',' || to_json(r ->> 'key')::text || case when r #> '{rule,rate}' is null then '' else ',1' end,
            ',' order by r ->> 'name' collate "C"
        ) || ']' as text
        from json_array_elements(rules) r where r #> '{rule,sequence}' is null
    ) t
$$;

-- Where a job with these rules waits first: for its turn in a sequence, else at its only rule, else in its lane. The planner inserts it into the
-- statements that call it.
create function jobs.place(rules json) returns table (limit_name text, limit_key text, most integer)
language sql immutable
as $$
    select case when lane.is then '' else rules #>> '{0,name}' end, case when lane.is then jobs.lane(rules) else rules #>> '{0,key}' end,
           case when lane.is then 1 else coalesce(rules #>> '{0,rule,concurrency,most}', rules #>> '{0,rule,rate,limit}', '1')::integer end
    from (select json_array_length(rules) > 1 and rules #> '{0,rule,sequence}' is null as is) lane
$$;

-- Whether an index of jobs.held has had an entry since it was made. Looking for an entry would read those of all jobs that have left, until a vacuum.
create function jobs.is_used(index text) returns boolean
language sql volatile
as $$
    select coalesce(pg_relation_size(to_regclass(index)) > current_setting('block_size')::integer, true)
$$;

-- The rule with this name.
create function jobs.rule_of(rules json, name text) returns json
language sql immutable
as $$
    select r from json_array_elements(rules) r where r ->> 'name' = name limit 1
$$;

-- Jobs that wait until their limit admits them. Only admission moves a job from here to jobs.ready.
create table jobs.held (
    id bigint not null default nextval('jobs.job_id'),
    run_at jobs.instant not null default clock_timestamp(),
    enqueued_at jobs.instant not null default clock_timestamp(),
    lease jobs.integer_from_0 not null default 0,
    flags integer not null default 1,
    priority smallint not null default 0,
    attempt jobs.smallint_from_0 not null default 0,
    max_attempts jobs.smallint_from_1 not null default 25,
    crashes jobs.smallint_from_0 not null default 0,
    -- The next rule for which it waits, with its key, and how many jobs may run at once there. For a job that waits in a lane, the name is empty.
    -- `limit_name` and `limit_key` are beside the other texts.
    most integer not null,
    -- Whether it is not due yet. An index finds such jobs when they become due. Then admission sets it to false.
    later boolean not null default false,
    -- Whether admission has found its queue or its kind paused. After a resume, an index finds such jobs.
    paused boolean not null default false,
    kind text collate "C" not null,
    queue text collate "C" not null default 'default',
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    tags jobs.tags,
    args json,
    traceparent text,
    rules json not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 50000
);

-- In the order of admission. A full key does not delay other keys, because each has its own range. Jobs that may not start
-- now are in other indexes, so that admission does not read them repeatedly. `~priority` is the descending order of the priorities. So
-- all columns have the same direction, and a scan can begin at any row.
create unique index held_order on jobs.held (limit_name, limit_key, (~priority), run_at, id) where not later and not paused and flags & 12 = 0;

-- A sequence is admitted in the order of the ids. A job that is not due stops those behind it.
create index held_sequence on jobs.held (limit_name, limit_key, id) where flags & 4 <> 0;

-- Jobs with a rate, in the order of admission.
create index held_rate on jobs.held (limit_name, limit_key, (~priority), run_at, id) where not later and not paused and flags & 8 <> 0;

-- Jobs with tenants, in the order of admission of each tenant. They are in held_order, too, by which their keys are found and counted.
create index held_fair on jobs.held (limit_name, limit_key, ((rules #>> '{0,tenant}') collate "C"), (~priority), run_at, id)
    where not later and not paused and flags & 256 <> 0;

-- For a search by id. It is unique and has all rows, because a subscriber of logical replication finds rows by it. An id alone is not unique
-- after an earlier value of the sequence was restored, and then an enqueue must not fail.
create unique index held_id on jobs.held (id, enqueued_at);
alter table jobs.held replica identity using index held_id;
create index held_later on jobs.held (run_at, id) where later;

-- The jobs with several limits. The second index has those that wait at one of their limits: the first jobs of their lanes.
create index held_several on jobs.held (id) where flags & 128 <> 0;
create index held_from_lane on jobs.held ((jobs.lane(rules) collate "C")) where flags & 132 = 128 and limit_name <> '';

-- The jobs that do not wait if their limit is full, before their first attempt. The limits and the rates have ranges of their own.
create index held_on_full on jobs.held (limit_name, limit_key, (flags & 8), (~priority), run_at, id)
    where flags & 64 <> 0 and lease = 0 and not later and not paused;
create index held_paused on jobs.held (queue, kind) where paused;

-- As for jobs.ready: without these statistics a search by id would read the whole table after a vacuum of the empty one.
alter table jobs.held alter column id set (n_distinct = 1000000000);
insert into jobs.held (id, kind, args, most, limit_name, limit_key, rules) select id, '', '{}', 1, '', '', '[]' from generate_series(1, 100) id;
analyze jobs.held (id);
delete from jobs.held;

-- Refuses jobs with a rate or with several rules if admission could not compute with their numbers. Each inserted job with several rules
-- first waits for its turn or in its lane. It is a trigger and no constraint. The server prepares the expression of a constraint again in
-- each statement, and that takes a third of the time of an enqueue.
create function jobs.check_rules() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not (case when new.flags & 128 = 0 then jobs.is_possible(new.rules #> '{0,rule,rate}') and json_array_length(new.rules) = 1
                else jobs.are_possible(new.rules) and json_array_length(new.rules) > 1 end) then
        raise exception 'jobs.held: the rules of job % are not possible: %', new.id, new.rules using errcode = '23514';
    end if;
    if new.flags & 128 <> 0 then
        select p.limit_name, p.limit_key, p.most into new.limit_name, new.limit_key, new.most from jobs.place(new.rules) p;
        new.flags := new.flags & ~12 | case when new.rules #> '{0,rule,sequence}' is null then 0 else 4 end;
    end if;
    return new;
end
$$;

create trigger check_rules before insert on jobs.held
    for each row when (new.flags & 136 <> 0) execute function jobs.check_rules();

create trigger set_payload_aside before insert on jobs.held
    for each row when (pg_column_size(new.args) > 2000 or new.args is null and new.lease = 0) execute function jobs.set_payload_aside();

-- Where admission begins to read, for keys from which it has taken many jobs. Until a vacuum, the indexes still have the entries of these jobs
-- and of their permits. Reading them again in each pass would take longer than the pass. `floors` has for each such key the place in held_order below
-- which there is no job, for a sequence the id below which there is none, and the number below which there is no permit. Only admission writes it,
-- with its lock. A new version is a new row with a higher number, and not an update. So the newest one is found at once, even if an old snapshot
-- keeps the others.
create table jobs.admission_floor (
    number bigint primary key,
    floors json not null,
    -- No row of jobs.rate has an earlier `next_at`.
    next_at timestamptz not null default '-infinity'
) with (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- The number of the newest floors. New permits have it. Like the parts of jobs.admit, it is not in the language sql: the server would plan it again
-- for each statement that calls it.
create function jobs.floor_number() returns bigint
language plpgsql stable
as $$
begin
    return coalesce((select f.number from jobs.admission_floor f order by f.number desc limit 1), 0);
end
$$;

-- One row for each job with a limit in jobs.ready and jobs.running. Only admission inserts a row. The statement that moves the job
-- away deletes it. So the number of rows of a key cannot drift from the number of its jobs. A job of a sequence keeps its permit until it
-- has ended, and while it is held before its next attempt.
create table jobs.permit (
    job_id bigint not null,
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    -- When the job was discarded, which halts its sequence. The row stays, even when the job is deleted, until the job is retried or an
    -- operator skips it.
    halted_at jobs.instant,
    -- It grows with time, so admission can leave out the entries of earlier permits.
    number bigint not null default jobs.floor_number(),
    primary key (job_id, limit_name)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index permit_key on jobs.permit (limit_name, limit_key, number);
create index permit_halted on jobs.permit (limit_name, limit_key) where halted_at is not null;

-- A nudge says that a key may have a free permit or a new job. The transaction that has freed the permit or inserted the job inserts it, even
-- if no job of the key is held. Only admission deletes it, and then examines the key in a later snapshot. The table has no index, so that
-- transactions do not wait for each other.
create table jobs.nudge (
    -- No job that the transaction has brought is before this place in held_order, which begins with `~priority` and `run_at`. By default it is
    -- the first place. `run_at` is null if the transaction has only freed something.
    run_at timestamptz default '-infinity',
    place smallint not null default -32768,
    limit_name text collate "C" not null,
    limit_key text collate "C" not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

alter table jobs.nudge replica identity full;

-- The tokens of a key with a rate. Each admission spends one. A key without a row has all its tokens. Only admission changes these rows, so
-- the lock of jobs.admission protects them, too. Each pass replaces the row of a key by a later one, and reads the latest first, as it does with
-- jobs.admission_floor. An update would leave its earlier versions to be read by each pass until a vacuum.
create table jobs.rate (
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    written_at timestamptz not null default clock_timestamp(),
    -- When it has all its tokens again. After this time the row says nothing, and a sweep deletes it.
    full_at jobs.instant not null,
    -- When admission looks at the key again, while jobs wait for a token.
    next_at jobs.instant,
    -- The floor of the key: there is no job before this place in held_rate.
    place smallint not null default -32768,
    run_at timestamptz not null default '-infinity',
    id bigint not null default 0,
    primary key (limit_name, limit_key, written_at)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index rate_next on jobs.rate (next_at) where next_at is not null;
create index rate_full on jobs.rate (full_at) where next_at is null;

-- For keys with tenants: the tenant that was served last. The next pass begins after it. Only admission changes these rows, with its lock. It replaces
-- the row of a key by a later one, as it does with jobs.rate.
create table jobs.fair_turn (
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    written_at timestamptz not null default clock_timestamp(),
    after text collate "C" not null,
    primary key (limit_name, limit_key, written_at)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- What admission could not do: a job that the database does not make available, for a reason that may pass, or a key at which a pass has failed.
-- Passes leave such a key out until `next_at`, and then handle it apart from the others. Such a job is not due until then, and its key is handled apart.
-- Only admission writes it. The exceptions are jobs that the database refuses to end, because they have expired or their limit is full, and jobs of dead
-- workers that it refuses to move. Their rows have no key, and they are not tried again until `next_at`.
create table jobs.admission_failure (
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    -- 0: the key. -1: the sweep, which has no key.
    job_id bigint not null default 0,
    failures integer not null default 1,
    since timestamptz not null default clock_timestamp(),
    next_at timestamptz not null,
    message text not null,
    primary key (limit_name, limit_key, job_id)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- At most one row. The session that has locked it admits. No other session counts permits meanwhile. The first pass inserts it, and not
-- this migration: so a dump and a subscription can fill the table.
create table jobs.admission (
    only_row boolean primary key default true check (only_row),
    -- The key at which the last sweep ended.
    after_name text not null default '',
    after_key text not null default '',
    -- The sequence at which it ended.
    after_sequence text not null default '',
    after_sequence_key text not null default '',
    -- The rate at which it ended.
    after_rate text not null default '',
    after_rate_key text not null default '',
    -- The row of jobs.fair_turn at which it ended.
    after_turn text not null default '',
    after_turn_key text not null default '',
    -- The job whose permit the last sweep looked at last.
    after_permit bigint not null default 0
) with (fillfactor = 50);

-- When jobs with the flag 32 expire: a job is cancelled if its first attempt has not started by then. The enqueue inserts the row. The row is
-- deleted after the job has ended, at the latest by the first sweep after its time. So a job with the flag and without a row has expired, unless
-- it has started.
create table jobs.expiry (
    job_id bigint not null,
    start_by timestamptz not null,
    -- How long after its time the job expires. For an enqueue that changes the time of a unique job.
    after interval not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- An id alone is not unique after an earlier value of the sequence was restored, and then an enqueue must not fail.
create unique index expiry_job on jobs.expiry (job_id, start_by);
alter table jobs.expiry replica identity using index expiry_job;
create index expiry_time on jobs.expiry (start_by);

-- What operators have set: how many jobs of each key of a limit run at once, instead of what the jobs say. It has few rows.
create table jobs.limit_setting (
    name text collate "C" primary key,
    most integer not null check (most between 0 and 10000),
    set_at timestamptz not null default now(),
    set_by text not null,
    reason text
);

-- How many jobs of each key of this limit run at once: what an operator has set, else `most`. The planner replaces the call by its text.
create function jobs.allowed(name text, most integer) returns integer
language sql stable
as $$
    select coalesce((select s.most from jobs.limit_setting s where s.name = allowed.name), allowed.most)
$$;

-- Unique jobs: which job has a key, and what happens to an enqueue that finds the key taken.

-- The unique keys of jobs. A row says which job has the key. That job has it for as long as it waits or runs (`started`: for as long
-- as it waits for its first attempt), and at most until `until`. Otherwise the row is without effect, and the next enqueue with the key
-- gives it to its own job. The statement that ends a job deletes the row. It passes over a row that an enqueue has locked, so that
-- it never waits for a transaction of the application.
--
-- The collation "C" compares bytes. Other collations would make each insert slower.
create table jobs.unique_key (
    name text collate "C" not null,
    key text collate "C" not null,
    job_id bigint not null,
    started boolean not null,
    until timestamptz,
    primary key (name, key)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index unique_key_job on jobs.unique_key (job_id);

-- A part of jobs.take_key: a job that was admitted, and now has another time. It waits for its limit again: a job that is scheduled has no permit. In
-- a sequence it keeps its turn. The row was deleted from jobs.ready.
create function jobs.hold_again(job jobs.ready, at timestamptz) returns void
language plpgsql volatile
as $$
declare
    rules constant json := job.rules;
begin
    if job.flags & 32 <> 0 then
        update jobs.expiry e set start_by = at + e.after where e.job_id = job.id;
    end if;
    delete from jobs.permit s where s.job_id = job.id and (rules #> '{0,rule,sequence}' is null or s.limit_name <> rules #>> '{0,name}');
    insert into jobs.held (id, run_at, enqueued_at, lease, flags, priority, attempt, max_attempts, crashes, most, later, kind, queue, limit_name, limit_key,
                           tags, args, traceparent, rules)
    select job.id, at, job.enqueued_at, job.lease, job.flags, job.priority, job.attempt, job.max_attempts, job.crashes, p.most,
           at > clock_timestamp(), job.kind, job.queue, p.limit_name, p.limit_key, job.tags, job.args, job.traceparent, rules
    from jobs.place(rules) p;
    insert into jobs.nudge (limit_name, limit_key)
    select r ->> 'name', r ->> 'key' from json_array_elements(rules) r
    union select '', jobs.lane(rules) where job.flags & 128 <> 0;
    perform jobs.wake_admission();
end
$$;

-- A part of jobs.take_key: changes the job that has the key, if it waits. The row is deleted and inserted again, because no
-- statement updates the row of a job. So a claim passes over the job until this transaction ends, and then it has the new arguments.
create function jobs.replace_waiting(holder jobs.unique_key, rule json, args json, run_at timestamptz, priority smallint) returns boolean
language plpgsql volatile
as $$
declare
    held jobs.held;
    ready jobs.ready;
    with_args constant boolean := (rule ->> 'args')::boolean;
    with_run_at constant boolean := (rule ->> 'run_at')::boolean;
    with_priority constant boolean := (rule ->> 'priority')::boolean;
    quiet constant interval := make_interval(secs => (rule ->> 'quiet')::float8);
    longest constant interval := make_interval(secs => (rule ->> 'max')::float8);
    at timestamptz;
begin
    -- First the table from which admission moves a job to the other one.
    delete from jobs.held h where h.id = holder.job_id and (h.attempt = 0 or not holder.started) returning h.* into held;
    if held.id is not null then
        if with_args then
            delete from jobs.payload p where p.job_id = held.id;
            held.args := replace_waiting.args;
        end if;
        held.priority := case when with_priority then replace_waiting.priority else held.priority end;
        held.run_at := case when quiet is not null then least(clock_timestamp() + quiet, held.enqueued_at + longest)
                            when with_run_at then replace_waiting.run_at else held.run_at end;
        held.later := held.run_at > clock_timestamp();
        if held.flags & 32 <> 0 then
            update jobs.expiry e set start_by = held.run_at + e.after where e.job_id = held.id;
        end if;
        -- A job that waits at one of several rules begins again with its turn or in its lane: see the trigger check_rules.
        insert into jobs.nudge (limit_name, limit_key)
        select held.limit_name, held.limit_key
        union select held.rules #>> '{0,name}', held.rules #>> '{0,key}'
        union select '', jobs.lane(held.rules) where held.flags & 128 <> 0;
        insert into jobs.held select held.*;
        perform jobs.wake_admission();
        return true;
    end if;
    delete from jobs.ready r where r.id = holder.job_id and (r.attempt = 0 or not holder.started) returning r.* into ready;
    if ready.id is null then
        return false;
    end if;
    if with_args then
        delete from jobs.payload p where p.job_id = ready.id;
        ready.args := replace_waiting.args;
    end if;
    ready.priority := case when with_priority then replace_waiting.priority else ready.priority end;
    at := case when quiet is not null then least(clock_timestamp() + quiet, ready.enqueued_at + longest)
               when with_run_at then replace_waiting.run_at else ready.run_at end;
    if ready.rules is not null and at > clock_timestamp() then
        perform jobs.hold_again(ready, at);
        return true;
    end if;
    -- A claim would find an earlier time than now only after a rescan.
    ready.run_at := greatest(clock_timestamp(), at);
    if ready.flags & 32 <> 0 and (quiet is not null or with_run_at) then
        update jobs.expiry e set start_by = ready.run_at + e.after where e.job_id = ready.id;
    end if;
    insert into jobs.ready select ready.*;
    perform jobs.wake(ready.queue);
    return true;
end
$$;

-- Takes a unique key for a new job. `again`: also from a job that runs. `outcome`:
-- 0: the new job `id` has the key. The caller inserts this job.
-- 1: the job `id` has the key, and was not changed.
-- 2: the job `id` has the key, and was changed.
-- 3: the job `id` has the key, and the rule is `error`.
--
-- The insert of the key decides. It waits for another transaction that has inserted the same key and is still open. Each statement
-- has a snapshot of its own, so it sees what the transaction that it has waited for has committed. No statement of a worker
-- takes a key, so a retry or a rescue cannot fail because of one.
create function jobs.take_key(
    name text, key text, rule json, args json, run_at timestamptz, priority smallint, out id bigint, out outcome smallint
)
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
declare
    own_name constant text := take_key.name;
    own_key constant text := take_key.key;
    starts constant boolean := (rule ->> 'started')::boolean;
    fails constant boolean := (rule ->> 'error')::boolean;
    again constant boolean := coalesce((rule ->> 'again')::boolean, false);
    replaces constant boolean := (rule ->> 'args')::boolean or (rule ->> 'run_at')::boolean or (rule ->> 'priority')::boolean;
    until_time constant timestamptz := clock_timestamp() + make_interval(secs => (rule ->> 'within')::float8);
    holder jobs.unique_key;
    waits boolean;
    runs boolean;
begin
    for attempt in 1 .. 1000 loop
        insert into jobs.unique_key as u (name, key, job_id, started, until)
        values (own_name, own_key, nextval('jobs.job_id'), starts, until_time)
        on conflict do nothing returning u.job_id into take_key.id;
        if found then
            outcome := 0;
            return;
        end if;
        select * into holder from jobs.unique_key u where u.name = own_name and u.key = own_key;
        continue when not found;
        id := holder.job_id;
        if holder.until is null or holder.until > clock_timestamp() then
            if replaces then
                if jobs.replace_waiting(holder, rule, args, run_at, priority) then
                    outcome := 2;
                    return;
                end if;
            elsif holder.started and not fails then
                -- The job must not start before this transaction commits: it would not see what this transaction has written.
                perform from jobs.held h where h.id = holder.job_id and h.attempt = 0 for key share;
                if not found then
                    perform from jobs.ready r where r.id = holder.job_id and r.attempt = 0 for key share;
                end if;
                if found then
                    outcome := 1;
                    return;
                end if;
            end if;
            -- One statement, so that a job that moves from one table to another is seen in one of them.
            select exists (select from jobs.held h where h.id = holder.job_id and (h.attempt = 0 or not holder.started))
                or exists (select from jobs.ready r where r.id = holder.job_id and (r.attempt = 0 or not holder.started)),
                not holder.started and exists (select from jobs.running r where r.id = holder.job_id)
            into waits, runs;
            -- It has moved meanwhile.
            continue when waits and (replaces or holder.started and not fails);
            -- Otherwise the new job gets the key. It is in a sequence behind the running one.
            if waits or runs and not again then
                outcome := case when fails then 3 else 1 end;
                return;
            end if;
        end if;
        update jobs.unique_key u set job_id = nextval('jobs.job_id'), started = starts, until = until_time
        where u.name = own_name and u.key = own_key and u.job_id = holder.job_id
        returning u.job_id into take_key.id;
        if found then
            outcome := 0;
            return;
        end if;
    end loop;
    raise exception 'jobs.take_key: the job with the unique key % of % changes too often', own_key, own_name using errcode = '40001';
end
$$;

-- The same for the jobs of a statement. A job whose name is null has no key. The keys are distinct, and in the same order in all
-- statements. If a rule says that a key is an error, no key is taken: the outcome is 3 for this job and 4 for the others.
-- Usually no other job has one of the keys. Then the rules are not read: that would take longer than the insert.
create function jobs.take_keys(
    names text[], keys text[], started boolean[], within float8[], rules json[], args json[], run_ats timestamptz[], priorities smallint[],
    out ids bigint[], out outcomes smallint[]
)
language plpgsql volatile
as $$
declare
    wanted constant bigint := (select count(*) from unnest(names) as name where name is not null);
    inserted bigint;
    own bigint[];
    taken record;
    failed integer;
begin
    for attempt in 1 .. 10 loop
        -- The keys that it has taken are given back if it begins again.
        begin
            ids := array(select nextval('jobs.job_id') from generate_series(1, cardinality(names)));
            outcomes := array_fill(0::smallint, array[cardinality(names)]);
            own := '{}';
            if attempt = 1 then
                insert into jobs.unique_key (name, key, job_id, started, until)
                select w.name, w.key, w.id, w.started, clock_timestamp() + make_interval(secs => w.within)
                from unnest(names, keys, ids, started, within) as w (name, key, id, started, within) where w.name is not null
                on conflict do nothing;
                get diagnostics inserted = row_count;
                exit when inserted = wanted;
                own := array(select u.job_id from jobs.unique_key u where u.job_id = any(ids));
            end if;
            for number in 1 .. cardinality(names) loop
                continue when names[number] is null or ids[number] = any(own);
                select t.id, t.outcome into taken
                from jobs.take_key(names[number], keys[number], rules[number], args[number], run_ats[number], priorities[number]) t;
                ids[number] := taken.id;
                outcomes[number] := taken.outcome;
                if taken.outcome = 3 then
                    failed := number;
                    raise exception 'jobs.take_keys: a key is taken' using errcode = 'JU001';
                end if;
            end loop;
            exit;
        exception
            when sqlstate 'JU001' then
                outcomes := array(select case when number = failed then 3 else 4 end::smallint from generate_series(1, cardinality(names)) as number);
                exit;
            -- A key that another job had was released and taken by another statement meanwhile, so the order was lost. The next attempt takes
            -- the keys one by one in their order.
            when deadlock_detected then
                if attempt = 10 then
                    raise;
                end if;
        end;
    end loop;
end
$$;

-- The view jobs.job, which applications and their joins read.

-- One row per job: the rows of all four tables. Later versions do not change these columns. They add columns at the
-- end.
create view jobs.job as
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
       traceparent,
       rules
from (
    -- The casts give these columns the same types as in the other two tables. If the types differed, the planner would
    -- not pass a condition on the id to the three tables, and a query by id would read all rows.
    select id, kind, queue,
           case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags, traceparent, rules
    from jobs.ready
    union all
    select id, kind, queue,
           case when run_at <= now() then 'held' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags, traceparent, rules
    from jobs.held
    union all
    -- The view takes its column names from the select above. Constants have a name here, too, because PostgreSQL would
    -- generate names for them, and different ones when the view is restored from a dump.
    select id, kind, queue, 'running' as state, priority, attempt, max_attempts, crashes, run_at, enqueued_at,
           claimed_at, null as finished_at, worker, lease, tags, args, flags, traceparent, rules
    from jobs.running
    union all
    select id, kind, queue, (array['completed', 'cancelled', 'discarded'])[state], priority, attempt, max_attempts, crashes,
           run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args, flags, traceparent, rules
    from jobs.finished
) job;

comment on view jobs.job is 'One row per job that waits, runs, or has ended and is still kept. Read only.';
comment on column jobs.job.id is 'The id that the enqueue returned. It is unique, and larger for jobs that were enqueued later.';
comment on column jobs.job.kind is 'The stored name of the type of job. It selects the handler.';
comment on column jobs.job.queue is 'The name of the queue.';
comment on column jobs.job.state is 'available: due now. scheduled: due later, never failed. retrying: due later, after a failed attempt. held: due, and waits for its limit, its turn or a token of its rate. running: a worker has a lease for it. completed, cancelled, discarded: ended.';
comment on column jobs.job.priority is 'Jobs with a higher priority run first within a queue.';
comment on column jobs.job.attempt is 'The number of attempts so far, including the running one.';
comment on column jobs.job.max_attempts is 'The number of attempts after which a failure discards the job.';
comment on column jobs.job.crashes is 'The number of worker crashes that are counted on this job.';
comment on column jobs.job.run_at is 'The time at which the job is or was due.';
comment on column jobs.job.enqueued_at is 'The time of the enqueue.';
comment on column jobs.job.claimed_at is 'The time at which a worker claimed the newest attempt. Null while the job waits.';
comment on column jobs.job.finished_at is 'The time at which the job ended.';
comment on column jobs.job.worker is 'The worker that has or had the newest attempt (jobs.worker.id). Null while the job waits.';
comment on column jobs.job.lease is 'The lease number: how often the job was claimed.';
comment on column jobs.job.tags is 'The labels that were given at the enqueue.';
comment on column jobs.job.args is 'The arguments, as they were enqueued.';
comment on column jobs.job.last_error is 'The message of the newest failure. Older failures are in jobs.job_error.';
comment on column jobs.job.flags is 'One bit for each feature of a later version that the job uses.';
comment on column jobs.job.output is 'What the handler of a completed job returned. Null if it returned nothing.';
comment on column jobs.job.output_note is 'Why the output was not stored. Null if it was stored, or if there was none.';
comment on column jobs.job.progress_done is 'How much of the job is done, as its handler has reported last. Null if it has reported nothing.';
comment on column jobs.job.progress_total is 'Of how much. Null if the handler has reported nothing.';
comment on column jobs.job.progress_message is 'What the handler has said of its progress last.';
comment on column jobs.job.progress_at is 'The time at which the progress was stored.';
comment on column jobs.job.traceparent is 'The trace context of the enqueue. Null if there is none.';
comment on column jobs.job.rules is 'The list of the rules of the job: limits, sequences and rates, each with its name and its key. Null if it has none.';

-- The rules and keys of a job that SQL enqueues.

-- A rule as the column `rules` has it. Null without `most`, `sequence` and `rate`.
create function jobs.rule(
    kind text, args json, most integer, by text[], limit_name text, sequence text default null, rate integer default null,
    per interval default null, burst integer default null, on_full text default null
) returns json
language plpgsql immutable
as $$
declare
    per_us bigint;
begin
    if rule.rate is null and (rule.per is not null or rule.burst is not null) then
        raise exception 'jobs.enqueue: job % has `per` or `burst`, and no `rate`', rule.kind using errcode = '22023';
    end if;
    if rule.rate is not null then
        if most is not null or rule.sequence is not null then
            raise exception 'jobs.enqueue: job % has several of `concurrency`, `sequence` and `rate`; pass one of them, and the others in `limits`', rule.kind using errcode = '22023';
        end if;
        if rule.rate not between 1 and 1000000 then
            raise exception 'jobs.enqueue: rate of job % must be from 1 to 1000000', rule.kind using errcode = '22023';
        end if;
        -- Not a comparison of intervals, for which a year has 360 days.
        if (extract(epoch from rule.per) between 0.001 and 31622400) is not true then
            raise exception 'jobs.enqueue: job % with `rate` needs `per`, from a millisecond to 366 days', rule.kind using errcode = '22023';
        end if;
        per_us := (extract(epoch from rule.per) * 1000000)::bigint;
        if per_us < rule.rate::bigint * 100 then
            raise exception 'jobs.enqueue: rate of job % allows more than 10000 starts in a second', rule.kind using errcode = '22023';
        end if;
        burst := coalesce(rule.burst, least(greatest(rule.rate::bigint * 100000 / per_us, 1), 10000));
        if burst not between 1 and 10000 then
            raise exception 'jobs.enqueue: burst of job % must be from 1 to 10000', rule.kind using errcode = '22023';
        end if;
        if per_us * burst / rule.rate > 3155760000000000 then
            raise exception 'jobs.enqueue: the tokens of burst of job % must come within a hundred years', rule.kind using errcode = '22023';
        end if;
    end if;
    if rule.on_full not in ('wait', 'discard', 'cancel_oldest') then
        raise exception 'jobs.enqueue: `on_full` of job % must be wait, discard or cancel_oldest', rule.kind using errcode = '22023';
    end if;
    if rule.on_full = 'cancel_oldest' and rule.rate is not null then
        raise exception 'jobs.enqueue: `on_full` of job % with `rate` must be wait or discard: cancelling a job frees no token', rule.kind using errcode = '22023';
    end if;
    if rule.on_full is not null and most is null and rule.rate is null then
        raise exception 'jobs.enqueue: job % has `on_full`, and neither `concurrency` nor `rate`', rule.kind using errcode = '22023';
    end if;
    if rule.sequence is not null then
        if rule.sequence not in ('halt', 'skip') then
            raise exception 'jobs.enqueue: sequence of job % must be halt or skip: what happens when the job is discarded', rule.kind using errcode = '22023';
        end if;
        if most is not null then
            raise exception 'jobs.enqueue: job % has `sequence` and `concurrency`; pass one of them, and the other in `limits`', rule.kind using errcode = '22023';
        end if;
    end if;
    if most is null and rule.sequence is null and rule.rate is null then
        if by is not null or rule.limit_name is not null then
            raise exception 'jobs.enqueue: job % has `by` or `limit_name`, and neither `concurrency` nor `sequence` nor `rate`', rule.kind using errcode = '22023';
        end if;
        return null;
    end if;
    if rule.limit_name is null and rule.kind ~ E'^\\.v[0-9]+$' then
        raise exception 'jobs.enqueue: job % needs a `limit_name`, because its kind is a version without a name', rule.kind using errcode = '22023';
    end if;
    if most not between 1 and 10000 then
        raise exception 'jobs.enqueue: concurrency of job % must be from 1 to 10000', rule.kind using errcode = '22023';
    end if;
    if rule.limit_name = '' or octet_length(rule.limit_name) > 200 then
        raise exception 'jobs.enqueue: limit_name of job % must have 1 to 200 bytes', rule.kind using errcode = '22023';
    end if;
    return json_build_object(
        'name', coalesce(rule.limit_name, regexp_replace(rule.kind, E'\\.v[0-9]+$', '')),
        'key', jobs.key(rule.kind, rule.args, coalesce(by, '{}')),
        'rule', json_strip_nulls(case
            when rule.sequence is not null then json_build_object('sequence', json_build_object('on_discard', rule.sequence))
            when rule.rate is not null then json_build_object('rate', json_build_object(
                'limit', rule.rate, 'per', per_us, 'burst', burst, 'on_full', nullif(rule.on_full, 'wait')
            ))
            else json_build_object('concurrency', json_build_object('most', most, 'on_full', nullif(rule.on_full, 'wait'))) end)
    );
end
$$;

-- All rules of a job: the first one, if it is not null, and those of a list. Null if there are none. See jobs.enqueue.
create function jobs.rules(kind text, args json, first json, limits json) returns json
language plpgsql stable
as $$
declare
    known constant text[] := '{concurrency,by,limit_name,sequence,rate,per,burst,on_full}';
    each json;
    written record;
    part json;
    word text;
    names text[] := '{}';
    parts json[] := case when first is null then '{}' else array[first] end;
    has_sequence boolean := false;
begin
    if json_typeof(limits) <> 'array' then
        raise exception 'jobs.enqueue: `limits` of job % must be a JSON list of objects', rules.kind using errcode = '22023';
    end if;
    for each in select * from json_array_elements(limits) loop
        if json_typeof(each) <> 'object' or json_typeof(each -> 'by') not in ('array', 'null') then
            raise exception 'jobs.enqueue: each of the `limits` of job % must be a JSON object, and its `by` a list of arguments', rules.kind
                using errcode = '22023';
        end if;
        word := (select k from json_object_keys(each) k where k <> all(known) limit 1);
        if word is not null then
            raise exception 'jobs.enqueue: one of the `limits` of job % has `%`; there are `%`', rules.kind, word, array_to_string(known, '`, `')
                using errcode = '22023';
        end if;
        begin
            select (each ->> 'concurrency')::integer as concurrency,
                   case json_typeof(each -> 'by') when 'array' then array(select json_array_elements_text(each -> 'by')) end as key_of,
                   each ->> 'limit_name' as limit_name, each ->> 'sequence' as sequence,
                   (each ->> 'rate')::integer as rate, (each ->> 'per')::interval as per, (each ->> 'burst')::integer as burst,
                   each ->> 'on_full' as on_full
            into written;
        exception when data_exception then
            raise exception 'jobs.enqueue: one of the `limits` of job % has an impossible value: %', rules.kind, sqlerrm using errcode = '22023';
        end;
        part := jobs.rule(
            rules.kind, rules.args, written.concurrency, written.key_of, written.limit_name, written.sequence, written.rate, written.per,
            written.burst, written.on_full
        );
        if part is null then
            raise exception 'jobs.enqueue: one of the `limits` of job % has neither `concurrency` nor `sequence` nor `rate`', rules.kind
                using errcode = '22023';
        end if;
        parts := parts || part;
    end loop;
    if cardinality(parts) > 4 then
        raise exception 'jobs.enqueue: job % has % rules, and at most 4 are possible', rules.kind, cardinality(parts) using errcode = '22023';
    end if;
    if cardinality(parts) > 1 and exists (
        select from unnest(parts) as p where coalesce(p #> '{rule,concurrency,on_full}', p #> '{rule,rate,on_full}') is not null
    ) then
        raise exception 'jobs.enqueue: `on_full` of job % is for one limit or rate; a job with several of them waits', rules.kind using errcode = '22023';
    end if;
    foreach part in array parts loop
        if part ->> 'name' = any(names) then
            raise exception 'jobs.enqueue: two rules of job % have the name %; give each one a `limit_name` of its own', rules.kind, part ->> 'name'
                using errcode = '22023';
        end if;
        names := names || (part ->> 'name');
        if part #> '{rule,sequence}' is not null then
            if has_sequence then
                raise exception 'jobs.enqueue: job % is in one sequence at most', rules.kind using errcode = '22023';
            end if;
            has_sequence := true;
        end if;
    end loop;
    return case when cardinality(parts) > 0 then array_to_json(array(
        select p.part from unnest(parts) with ordinality as p (part, place) order by p.part #> '{rule,sequence}' is null, p.place
    )) end;
end
$$;

-- The same rules for a job whose tenant are the arguments that `fair_by` names.
create function jobs.with_tenant(kind text, args json, rules json, fair_by text[]) returns json
language plpgsql immutable
as $$
begin
    if cardinality(fair_by) = 0 or rules is null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which names at least one argument, and needs `concurrency`', with_tenant.kind using errcode = '22023';
    end if;
    if json_array_length(rules) > 1 or rules #> '{0,rule,concurrency}' is null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which is for jobs with `concurrency` and no other rule', with_tenant.kind using errcode = '22023';
    end if;
    if rules #> '{0,rule,concurrency,on_full}' is not null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which is for jobs that wait for their limit, and `on_full`, with which it does not wait', with_tenant.kind
            using errcode = '22023';
    end if;
    -- A tenant is made like a key.
    return json_build_array(json_build_object(
        'name', rules #> '{0,name}', 'key', rules #> '{0,key}', 'rule', rules #> '{0,rule}', 'tenant', jobs.key(with_tenant.kind, with_tenant.args, fair_by)
    ));
end
$$;

-- The flags of a job with these rules.
create function jobs.flags(rules json) returns integer
language sql immutable
as $$
    select case when rules is null then 0 else 1
        | case when json_array_length(rules) > 1 then 128 when rules #> '{0,rule,rate}' is not null then 8 else 0 end
        | case when rules #> '{0,rule,sequence}' is null then 0 else 4 end
        | case when coalesce(rules #>> '{0,rule,concurrency,on_full}', rules #>> '{0,rule,rate,on_full}') is null then 0 else 64 end
        | case when rules #>> '{0,tenant}' is null then 0 else 256 end end
$$;

-- The canonical text of JSON, of which keys are made: equal values have the same text. The names of an object are sorted by their bytes, and the last
-- of two fields with the same name counts. Numbers are exact: they are written out, without zeros that change nothing. So 1.0 is 1. The module
-- `canonical` in `jobs-core/src` makes the same text, and `jobs-core/src/canonical/cases.json` is tested against both.
create function jobs.canonical(kind text, value json) returns text
language plpgsql immutable
as $$
declare
    written text;
    exponent text;
begin
    case json_typeof(value)
        when 'object' then
            return (
                select '{' || coalesce(string_agg(to_json(field.name)::text || ':' || field.text, ',' order by field.name collate "C"), '') || '}'
                from (
                    select distinct on (each.name collate "C") each.name, each.text
                    from (
                        select f.key as name, jobs.canonical(canonical.kind, f.value) as text, f.place
                        from json_each(canonical.value) with ordinality as f (key, value, place) offset 0
                    ) each
                    order by each.name collate "C", each.place desc
                ) field
            );
        when 'array' then
            return (
                select '[' || coalesce(string_agg(jobs.canonical(canonical.kind, item.value), ',' order by item.place), '') || ']'
                from json_array_elements(canonical.value) with ordinality as item (value, place)
            );
        when 'string' then
            return to_json(value #>> '{}')::text;
        when 'number' then
            written := btrim(value::text, E' \t\n\r');
            if length(written) <= 18 and written ~ '^(0|-?[1-9][0-9]*)$' then
                return written;
            end if;
            exponent := substring(written from '[eE][+-]?0*([0-9]+)$');
            if length(translate(split_part(lower(written), 'e', 1), '-.', '')) > 1000 or length(exponent) > 4 or exponent::integer > 1000 then
                raise exception 'jobs.enqueue: the key of job % has a number with more than 1000 digits or an exponent beyond 1000; pass it as a text, or choose other arguments',
                    canonical.kind using errcode = '22023';
            end if;
            return trim_scale(written::numeric)::text;
        else
            return btrim(value::text, E' \t\n\r');
    end case;
end
$$;

-- The key of a job: the list of the arguments that `by` names, in their canonical text. A long one is replaced by its SHA-256. If `by` is null, the
-- key is the SHA-256 of all arguments. The functions `key_of` in `jobs-core/src/rules.rs` and `Unique::of` make the same keys.
create function jobs.key(kind text, args json, by text[]) returns text
language plpgsql immutable
as $$
declare
    nul constant text := E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000';
    readable json := key.args;
    -- The same with another character in the place of each NUL. Null if there is none.
    other json;
    named text;
    part json;
    parts text[] := '{}';
    made text;
begin
    -- JSON that is stored may have escapes that no function reads. The arguments that make no key may have a NUL.
    if position(E'\\u' in key.args::text) > 0 then
        if key.args::text ~ nul then
            readable := regexp_replace(key.args::text, nul, E'\\1\\\\u0001', 'g');
            other := regexp_replace(key.args::text, nul, E'\\1\\\\u0002', 'g');
        end if;
        begin
            perform readable -> '';
        exception when invalid_text_representation or untranslatable_character then
            raise exception 'jobs.enqueue: the arguments of job % have an escape that is no character, such as half of a surrogate pair, so they have no key', key.kind
                using errcode = '22023';
        end;
    end if;
    if by is not null then
        foreach named in array by loop
            part := readable -> named;
            if part is null then
                raise exception 'jobs.enqueue: `by` names the argument %, which job % does not have', named, key.kind using errcode = '22023';
            end if;
            if other is not null and part::text is distinct from (other -> named)::text then
                raise exception E'jobs.enqueue: the key of job % has a text with a NUL character (\\u0000), which databases do not store', key.kind
                    using errcode = '22023';
            end if;
            parts := array_append(parts, jobs.canonical(key.kind, part));
        end loop;
        made := '[' || array_to_string(parts, ',') || ']';
        if octet_length(convert_to(made, 'UTF8')) <= 200 then
            return made;
        end if;
    elsif other is not null then
        raise exception E'jobs.enqueue: the key of job % has a text with a NUL character (\\u0000), which databases do not store', key.kind using errcode = '22023';
    else
        made := jobs.canonical(key.kind, readable);
    end if;
    return 'sha256:' || encode(sha256(convert_to(made, 'UTF8')), 'hex');
end
$$;

-- The functions with which SQL enqueues jobs, and the notifications that they send to idle workers.

-- All notifications of workers are sent here. The server keeps notifications until every session that listens has read them, and a session reads none
-- while it is in a transaction. If its queue is full (8 GB), every transaction that has notified fails at its commit. So none is sent while a
-- quarter of the queue is in use: workers find the jobs at their next poll, and the applications' own notifications have the rest.
--
-- The server replaces calls of this function by its body. So it names the schema of each function and operator: the caller's `search_path` applies.
create function jobs.notify_workers(queue text) returns void
language sql volatile
as $$
    select case when pg_catalog.pg_notification_queue_usage() operator(pg_catalog.<) 0.25 then pg_catalog.pg_notify('jobs', queue) end
$$;

-- Enqueues the job of a rule for a job that is discarded by the same statement. If the database refuses it, because of a
-- trigger of the application or a rule that was changed by hand, the job is discarded without it, and a failure of the job
-- says so. Otherwise the job could never end, and a rescue could free no other job.
create function jobs.enqueue_for_discarded(rule jobs.on_discarded, job_id bigint, attempt smallint, discarded json) returns bigint
language plpgsql volatile
as $$
declare
    args json;
begin
    -- The arguments are joined as text, which is compact and ends with a brace. jsonb would refuse '\u0000' in them, and
    -- write long numbers out.
    args := (left(rule.args::text, -1) || case rule.args::text when '{}' then '' else ',' end || to_json(rule.argument) || ':' || discarded || '}')::json;
    -- Its rules are stored with their keys, so they are not made of its arguments, as jobs.enqueue would do it.
    if rule.rules is not null or rule.expires is not null then
        return (select t.id from jobs.enqueue_unique(
            array[null::text], array[null::text], array[null::boolean], array[null::float8], array[null::json],
            array[rule.enqueues], array[rule.queue], array[rule.priority], array[interval '0'], array[null::timestamptz],
            array[rule.max_attempts::smallint], array[null::text], array[args], array[null::text], array[rule.rules], array[rule.expires]
        ) t);
    end if;
    return jobs.enqueue(
        kind => rule.enqueues,
        args => args,
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

-- Notifies the idle workers of this queue when the transaction commits. It sends no notification while no worker of the
-- queue is idle, because NOTIFY takes a lock that all committing transactions of the server share. It also sends none
-- if `jobs.notify` is `off`, because a transaction that has executed NOTIFY cannot be prepared for a two-phase commit.
create function jobs.wake(queue text) returns void
language plpgsql volatile
as $$
begin
    perform jobs.notify_workers(wake.queue)
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(wake.queue) & 1023) = 1);
end
$$;

-- Wakes the workers that admit held jobs, when the transaction commits: a notification without a queue. It sends none while no
-- worker is idle: see jobs.wake. The workers also read the settings of operators then.
create function jobs.wake_admission() returns void
language plpgsql volatile
as $$
begin
    perform jobs.notify_workers('')
    where current_setting('jobs.notify', true) is distinct from 'off' and exists (select from jobs.worker where idle);
end
$$;

-- Tells the idle workers that an operator may have changed a setting, also by hand. They then read all settings. Workers that are not idle read them
-- once a second. Whether a worker is idle is not asked: one may become idle before the transaction commits. Settings change rarely.
create function jobs.wake_for_settings() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobs.notify_workers('') where current_setting('jobs.notify', true) is distinct from 'off';
    return null;
end
$$;

create trigger wake_for_settings after insert or update or delete on jobs.queue for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.kind for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.limit_setting for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.retention for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.installation for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.on_discarded for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert on jobs.operation for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after update of asked on jobs.worker for each statement execute function jobs.wake_for_settings();
-- Not after a tick, which changes only `last_tick`, `last_job` and `last_run_at`.
create trigger wake_for_settings after insert or delete or update of kind, expression, timezone, catch_up, paused, args, queue, priority, max_attempts
    on jobs.schedule for each statement execute function jobs.wake_for_settings();

-- Whether JSON is nested deeper than the readers of workers accept. Only arguments with more brackets than that are looked at: without strings and
-- all else, each round removes the innermost brackets.
create function jobs.is_too_deep(args text) returns boolean
language plpgsql immutable
as $$
declare
    brackets text;
begin
    if length(args) - length(translate(args, '[{', '')) <= 127 then
        return false;
    end if;
    brackets := regexp_replace(args, E'"([^"\\\\]|\\\\.)*"', '', 'g');
    brackets := translate(regexp_replace(brackets, '[^][{}]', '', 'g'), '{}', '[]');
    for level in 1..127 loop
        brackets := replace(brackets, '[]', '');
    end loop;
    return brackets <> '';
end
$$;

-- Enqueues a job from SQL, psql or a trigger. Returns its id.
-- `concurrency`: at most this many jobs of the same limit and key run at once.
-- `limit_name`: the name of the limit. Default: the kind, without the version of its arguments.
-- `by`: the arguments whose values are the key. Default: all jobs of the limit have one key.
-- `sequence`: the jobs run one after the other, in the order of their ids. 'halt' or 'skip' says what happens when the job is discarded.
-- `rate`, `per`, `burst`: at most `rate` jobs start in the period `per`, and at most `burst` at once. Default of `burst`: the starts of a tenth of a
-- second, at least 1.
-- `limits`: one or more further limits; the job starts when all of them allow it. It is a JSON list of objects. Each object has some of
-- `concurrency`, `by`, `limit_name`, `sequence`, `rate`, `per`, `burst` and, if the job has no other rule, `on_full`:
-- '[{"concurrency": 2, "by": ["account_id"], "limit_name": "account"}, {"rate": 100, "per": "1 minute", "limit_name": "stripe"}]'.
-- `on_full`: what happens if the limit is full. 'wait' (default), 'discard' (the job is discarded), 'cancel_oldest' (the oldest job of its key is cancelled).
-- `fair_by`: the arguments whose values are the tenant of the job. The tenants that wait for the limit take turns. It needs `concurrency`.
-- `unique_by`: the arguments whose values are the unique key of the job. '{}': all arguments.
-- `unique_within`: how long the job has the key at most. Default: no limit. `unique_until`: 'finished' (default) or 'started'.
-- `on_conflict`: what happens if another job has the key. 'keep' (default): that job is not changed, and its id is returned. 'replace': its
-- arguments, time and priority are replaced if it waits, or only some of them: 'replace(args, run_at)'. 'run_again': its arguments are replaced if it
-- waits; otherwise one more job is inserted, which starts after it has ended. 'error': an exception with the code JU001.
-- `debounce`, `debounce_max`: the job starts when no other enqueue with its unique key has come for `debounce`, and at the latest `debounce_max` after
-- the first one, with the newest arguments. An enqueue after its start inserts another job.
-- `expires`: the job is cancelled if its first attempt has not started within this time after it is due. Default: it does not expire.
--
-- Whatever the planner settings of the application's session are, its statements are not compiled: that would take longer than they do. And whatever
-- its `search_path` is, functions and operators are those of the server. The functions that this one calls have both settings from it. The rules of a
-- job that has none are not asked for: the two calls would take as long as setting `search_path`.
create function jobs.enqueue(
    kind text,
    args json default '{}',
    queue text default 'default',
    priority integer default 0,
    run_at timestamptz default null,
    max_attempts integer default 25,
    tags text[] default null,
    concurrency integer default null,
    by text[] default null,
    limit_name text default null,
    sequence text default null,
    unique_by text[] default null,
    unique_within interval default null,
    unique_until text default null,
    on_conflict text default null,
    rate integer default null,
    per interval default null,
    burst integer default null,
    expires interval default null,
    limits json default null,
    on_full text default null,
    fair_by text[] default null,
    debounce interval default null,
    debounce_max interval default null
) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp set jit = off
as $$
declare
    new_id bigint;
    rules json;
    unique_rule json;
    taken record;
    place record;
begin
    if coalesce(enqueue.kind, '') = '' or coalesce(enqueue.queue, '') = '' then
        raise exception 'jobs.enqueue: kind and queue must not be empty' using errcode = '22023';
    end if;
    if octet_length(enqueue.kind) > 200 or octet_length(enqueue.queue) > 200 then
        raise exception 'jobs.enqueue: kind and queue must not be longer than 200 bytes' using errcode = '22023';
    end if;
    if strpos(enqueue.queue, '*') > 0 then
        raise exception 'jobs.enqueue: the queue % contains *, which stands for any characters where a worker names its queues', enqueue.queue
            using errcode = '22023';
    end if;
    if (enqueue.max_attempts between 1 and 32767) is not true then
        raise exception 'jobs.enqueue: max_attempts of job % must be from 1 to 32767', enqueue.kind using errcode = '22023';
    end if;
    if (enqueue.priority between -32768 and 32767) is not true then
        raise exception 'jobs.enqueue: priority of job % must be from -32768 to 32767', enqueue.kind using errcode = '22023';
    end if;
    -- This also refuses 'infinity', which clients cannot represent.
    if enqueue.run_at > now() + interval '100 years' then
        raise exception 'jobs.enqueue: job % would start more than a hundred years from now', enqueue.kind using errcode = '22023';
    end if;
    if array_position(enqueue.tags, null) is not null or cardinality(enqueue.tags) > 32 then
        raise exception 'jobs.enqueue: job % takes at most 32 tags, none of them null', enqueue.kind using errcode = '22023';
    end if;
    if octet_length(enqueue.args::text) > 262144 then
        raise exception 'jobs.enqueue: the arguments of job % take more than 262144 bytes', enqueue.kind using errcode = '22023';
    end if;
    if jobs.is_too_deep(enqueue.args::text) then
        raise exception 'jobs.enqueue: the arguments of job % are nested more than 127 levels deep, and no worker could read them', enqueue.kind
            using errcode = '22023';
    end if;
    if extract(epoch from enqueue.expires) not between 0.001 and extract(epoch from interval '100 years') then
        raise exception 'jobs.enqueue: `expires` of job % must be from a millisecond to a hundred years', enqueue.kind using errcode = '22023';
    end if;
    -- JSON may contain an escaped NUL character, and no text may.
    if enqueue.limits::text ~ E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000' then
        raise exception E'jobs.enqueue: `limits` of job % must not contain the NUL character (\\u0000)', enqueue.kind using errcode = '22023';
    end if;
    if num_nonnulls(enqueue.concurrency, enqueue.by, enqueue.limit_name, enqueue.sequence, enqueue.rate, enqueue.per, enqueue.burst, enqueue.on_full) > 0 then
        rules := jobs.rule(enqueue.kind, enqueue.args, enqueue.concurrency, enqueue.by, enqueue.limit_name, enqueue.sequence, enqueue.rate, enqueue.per,
                           enqueue.burst, enqueue.on_full);
    end if;
    rules := case when enqueue.limits is not null then jobs.rules(enqueue.kind, enqueue.args, rules, enqueue.limits)
                  when rules is not null then json_build_array(rules) end;
    if enqueue.fair_by is not null then
        rules := jobs.with_tenant(enqueue.kind, enqueue.args, rules, enqueue.fair_by);
    end if;
    if num_nonnulls(enqueue.unique_by, enqueue.unique_within, enqueue.unique_until, enqueue.on_conflict, enqueue.debounce, enqueue.debounce_max) > 0 then
        unique_rule := jobs.unique_rule(enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.unique_by, enqueue.unique_within, enqueue.unique_until,
                                        enqueue.on_conflict, enqueue.debounce, enqueue.debounce_max);
        enqueue.run_at := coalesce(enqueue.run_at, clock_timestamp() + make_interval(secs => (unique_rule ->> 'quiet')::float8));
    end if;
    if (unique_rule ->> 'again')::boolean then
        if rules is not null then
            raise exception 'jobs.enqueue: job % has `on_conflict` run_again, which makes a sequence, and one of `concurrency`, `sequence` and `rate`', enqueue.kind
                using errcode = '22023';
        end if;
        rules := json_build_array(json_build_object(
            'name', unique_rule ->> 'name', 'key', unique_rule ->> 'key', 'rule', json_build_object('sequence', json_build_object('on_discard', 'skip'))
        ));
    end if;
    if enqueue.expires is not null then
        select t.id, t.outcome into taken from jobs.enqueue_unique(
            array[unique_rule ->> 'name'], array[unique_rule ->> 'key'], array[(unique_rule ->> 'started')::boolean], array[(unique_rule ->> 'within')::float8],
            array[unique_rule],
            array[enqueue.kind], array[enqueue.queue], array[enqueue.priority::smallint], array[interval '0'], array[enqueue.run_at],
            array[enqueue.max_attempts::smallint], array[enqueue.tags::text], array[coalesce(enqueue.args, '{}')], array[null::text], array[rules], array[enqueue.expires]
        ) t;
    elsif unique_rule is not null then
        select t.id, t.outcome into taken from jobs.enqueue_unique_one(
            unique_rule ->> 'name', unique_rule ->> 'key', unique_rule, enqueue.kind, enqueue.queue, enqueue.priority::smallint, greatest(enqueue.run_at, clock_timestamp()),
            enqueue.max_attempts::smallint, enqueue.tags, coalesce(enqueue.args, '{}'), null, rules
        ) t;
    end if;
    if taken is not null then
        if taken.outcome = 3 then
            raise exception 'jobs.enqueue: job % has the unique key % of job % already', taken.id, unique_rule ->> 'key', enqueue.kind using errcode = 'JU001';
        end if;
        return taken.id;
    end if;
    if rules is not null then
        select * into place from jobs.place(rules);
        insert into jobs.held as h (kind, args, queue, priority, run_at, max_attempts, tags, rules, limit_name, limit_key, most, flags, later)
        values (
            enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.queue, enqueue.priority::smallint,
            greatest(enqueue.run_at, clock_timestamp()), enqueue.max_attempts::smallint, enqueue.tags,
            rules, place.limit_name, place.limit_key, place.most, jobs.flags(rules),
            coalesce(enqueue.run_at > clock_timestamp(), false)
        )
        returning h.id into new_id;
        insert into jobs.nudge (limit_name, limit_key, place, run_at)
        values (place.limit_name, place.limit_key, ~enqueue.priority::smallint, statement_timestamp());
        perform jobs.wake_admission();
        return new_id;
    end if;
    insert into jobs.ready as r (kind, args, queue, priority, run_at, max_attempts, tags)
    values (
        enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.queue, enqueue.priority::smallint,
        greatest(enqueue.run_at, clock_timestamp()), enqueue.max_attempts::smallint, enqueue.tags
    )
    returning r.id into new_id;
    perform jobs.wake(enqueue.queue);
    return new_id;
end
$$;

-- Enqueues the job of row `number` of jobs.dead_letter as a new job, and deletes the row. The new job is due now, with
-- all its attempts and a new id. Returns the new id.
create function jobs.put_back(number bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    letter jobs.dead_letter;
    arguments json;
    labels text[];
    rules json;
    place record;
    new_id bigint;
begin
    delete from jobs.dead_letter where dead_letter.number = put_back.number returning * into letter;
    if letter is null then
        raise exception 'jobs.put_back: there is no number % in jobs.dead_letter', put_back.number using errcode = '02000';
    end if;
    if letter.job -> 'state' is not null then
        raise exception 'jobs.put_back: job % has ended, and this is its history: to drop it, delete from jobs.dead_letter where number = %',
            letter.id, letter.number using errcode = '22023';
    end if;
    arguments := case json_typeof(letter.job -> 'args')
        when 'null' then (select payload.args from jobs.payload where payload.job_id = letter.id)
        else letter.job -> 'args' end;
    labels := case json_typeof(letter.job -> 'tags') when 'array' then array(select json_array_elements_text(letter.job -> 'tags')) end;
    if json_typeof(letter.job -> 'rules') = 'array' then
        rules := letter.job -> 'rules';
        select * into place from jobs.place(rules);
        insert into jobs.held as h (kind, args, queue, priority, max_attempts, tags, rules, limit_name, limit_key, most, flags)
        values (
            letter.kind, coalesce(arguments, '{}'), letter.queue, (letter.job ->> 'priority')::smallint,
            greatest((letter.job ->> 'max_attempts')::smallint, 1::smallint), labels,
            rules, place.limit_name, place.limit_key, place.most, jobs.flags(rules)
        )
        returning h.id into new_id;
        insert into jobs.nudge (limit_name, limit_key) values (place.limit_name, place.limit_key);
        perform jobs.wake_admission();
        return new_id;
    end if;
    return jobs.enqueue(
        kind => letter.kind,
        args => arguments,
        queue => letter.queue,
        priority => (letter.job ->> 'priority')::integer,
        max_attempts => greatest((letter.job ->> 'max_attempts')::integer, 1),
        tags => labels
    );
end
$$;

-- The enqueue of jobs with unique keys.

-- The rule of a unique or debounced job that SQL enqueues. Null without `by`. `Unique::to_json` in `jobs-core/src/unique.rs` makes the same, without
-- the name and the key.
create function jobs.unique_rule(
    kind text, args json, by text[], within interval, until text, on_conflict text, debounce interval, debounce_max interval
) returns json
language plpgsql immutable
as $$
declare
    debounces constant boolean := num_nonnulls(debounce, debounce_max) > 0;
    quiet constant numeric := extract(epoch from debounce);
    longest constant numeric := extract(epoch from debounce_max);
    -- What is replaced of a job that waits.
    parts text[] := case when debounces then '{args}' else '{}' end;
begin
    if by is null then
        if num_nonnulls(within, until, on_conflict, debounce, debounce_max) > 0 then
            raise exception 'jobs.enqueue: job % has `unique_within`, `unique_until`, `on_conflict` or `debounce`, and no `unique_by`', unique_rule.kind
                using errcode = '22023';
        end if;
        return null;
    end if;
    if debounces then
        if num_nonnulls(within, until, on_conflict) > 0 then
            raise exception 'jobs.enqueue: job % has `debounce`, which says all that `unique_within`, `unique_until` and `on_conflict` say; leave them out',
                unique_rule.kind using errcode = '22023';
        end if;
        if num_nulls(debounce, debounce_max) > 0 then
            raise exception 'jobs.enqueue: job % needs both `debounce` and `debounce_max`', unique_rule.kind using errcode = '22023';
        end if;
        if quiet <= 0 or longest < quiet or longest > extract(epoch from interval '100 years') then
            raise exception 'jobs.enqueue: `debounce` of job % must be longer than 0, and `debounce_max` at least as long and at most a hundred years',
                unique_rule.kind using errcode = '22023';
        end if;
    end if;
    if on_conflict = 'replace' then
        parts := '{args,run_at,priority}';
    elsif on_conflict = 'run_again' then
        parts := '{args}';
    elsif on_conflict like 'replace(%)' then
        parts := array(select btrim(p) from unnest(string_to_array(substr(left(on_conflict, -1), 9), ',')) as p);
        if cardinality(parts) = 0 or not parts <@ '{args,run_at,priority}' then
            raise exception 'jobs.enqueue: `on_conflict` of job % is %, and `replace(..)` names one or several of args, run_at and priority',
                unique_rule.kind, on_conflict using errcode = '22023';
        end if;
    elsif on_conflict not in ('keep', 'error') then
        raise exception 'jobs.enqueue: `on_conflict` of job % must be keep, replace, replace(..), run_again or error', unique_rule.kind
            using errcode = '22023';
    end if;
    if until not in ('started', 'finished') then
        raise exception 'jobs.enqueue: `unique_until` of job % must be started or finished', unique_rule.kind using errcode = '22023';
    end if;
    if until = 'started' and on_conflict = 'run_again' then
        raise exception 'jobs.enqueue: job % has `on_conflict` run_again, which waits for the end of the running job, and `unique_until` started', unique_rule.kind
            using errcode = '22023';
    end if;
    if extract(epoch from within) <= 0 or extract(epoch from within) > extract(epoch from interval '100 years') then
        raise exception 'jobs.enqueue: `unique_within` of job % must be longer than 0 and at most a hundred years', unique_rule.kind using errcode = '22023';
    end if;
    return json_build_object(
        'name', regexp_replace(unique_rule.kind, E'\\.v[0-9]+$', ''), 'key', jobs.key(unique_rule.kind, unique_rule.args, nullif(by, '{}')),
        'started', debounces or coalesce(until = 'started', false), 'within', extract(epoch from within),
        'error', coalesce(on_conflict = 'error', false), 'again', coalesce(on_conflict = 'run_again', false),
        'args', 'args' = any(parts), 'run_at', 'run_at' = any(parts), 'priority', 'priority' = any(parts), 'quiet', quiet, 'max', longest
    );
end
$$;

-- Enqueues a job with a unique key. For the key and the outcome see jobs.take_key.
--
-- This function and the next three have the rights of the owner. A role that only enqueues must not read or change jobs, or choose the
-- id of a job.
create function jobs.enqueue_unique_one(
    name text, key text, unique_rule json, kind text, queue text, priority smallint, run_at timestamptz, max_attempts smallint, tags text[], args json,
    traceparent text, rules json, out id bigint, out outcome smallint
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
#variable_conflict use_variable
begin
    select t.id, t.outcome into id, outcome from jobs.take_key(name, key, unique_rule, args, run_at, priority) t;
    if outcome <> 0 then
        return;
    end if;
    if rules is null then
        insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
        values (id, 16, kind, queue, priority, run_at, max_attempts, tags, args, traceparent);
        perform jobs.wake(queue);
        return;
    end if;
    insert into jobs.held (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, rules, limit_name, limit_key, most, later)
    select id, 16 | jobs.flags(rules), kind, queue, priority, run_at, max_attempts, tags, args, traceparent,
           rules, p.limit_name, p.limit_key, p.most, run_at > clock_timestamp()
    from jobs.place(rules) p;
    insert into jobs.nudge (limit_name, limit_key) select p.limit_name, p.limit_key from jobs.place(rules) p;
    perform jobs.wake_admission();
end
$$;

-- The same for a job without rules. Usually no other job has the key, and one statement does everything. The rule is a text, because it is
-- read only if another job has the key.
--
-- It does not set `search_path`, which would take as long as the insert of the key. So it names the schema of each function and operator.
create function jobs.enqueue_unique_free(
    name text, key text, started boolean, within float8, rule text, kind text, queue text, priority smallint, run_at timestamptz,
    max_attempts smallint, tags text[], args json, traceparent text, out id bigint, out outcome smallint
)
language plpgsql volatile security definer set jit = off
as $$
#variable_conflict use_variable
declare
    woken boolean;
begin
    with taken as (
        insert into jobs.unique_key (name, key, job_id, started, until)
        values (name, key, pg_catalog.nextval('jobs.job_id'), started,
                pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => within))
        on conflict do nothing returning job_id
    )
    insert into jobs.ready as r (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
    select t.job_id, 16, kind, queue, priority, run_at, max_attempts, tags, args, traceparent from taken t
    returning r.id, case
        when coalesce(pg_catalog.current_setting('jobs.notify', true), '') operator(pg_catalog.<>) 'off' and exists (
            select from jobs.worker w
            where w.idle and pg_catalog.get_bit(w.queue_filter, pg_catalog.hashtext(queue) operator(pg_catalog.&) 1023) operator(pg_catalog.=) 1
        ) then jobs.notify_workers(queue) is not null end
    into id, woken;
    outcome := 0;
    if not found then
        select t.id, t.outcome into id, outcome from jobs.enqueue_unique_one(
            name, key, rule::pg_catalog.json, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, null
        ) t;
    end if;
end
$$;

-- The same for many jobs without a limit that differ only in their keys and arguments. See jobs.take_keys. `outcomes` is null if no other job
-- has one of the keys. It first inserts the keys as if this were so, which takes half as long as with `on conflict`. After a conflict these
-- keys are given back, and jobs.take_keys begins again. It is a subtransaction, because nothing else gives keys back before the transaction ends,
-- and transactions that wait for them may have the keys that jobs.take_keys waits for.
create function jobs.enqueue_unique_alike(
    name text, keys text[], started boolean, within float8, rule text, kind text, queue text, priority smallint, run_at timestamptz,
    max_attempts smallint, tags text[], args json[], traceparent text, out ids bigint[], out outcomes smallint[]
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
#variable_conflict use_variable
declare
    size constant integer[] := array[cardinality(keys)];
    until constant timestamptz := clock_timestamp() + make_interval(secs => within);
begin
    begin
        ids := array(select nextval('jobs.job_id') from generate_series(1, size[1]));
        insert into jobs.unique_key (name, key, job_id, started, until)
        select name, w.key, w.id, started, until from unnest(keys, ids) as w (key, id);
        insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
        select job.id, 16, kind, queue, priority, run_at, max_attempts, tags, job.args, traceparent from unnest(ids, args) as job (id, args);
        perform jobs.wake(queue);
        return;
    exception when unique_violation or deadlock_detected then
        null;
    end;
    select t.ids, t.outcomes into ids, outcomes from jobs.take_keys(
        array_fill(name, size), keys, array_fill(started, size), array_fill(within, size), array_fill(rule::json, size), args,
        array_fill(run_at, size), array_fill(priority, size)
    ) t;
    insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
    select job.id, 16, kind, queue, priority, run_at, max_attempts, tags, job.args, traceparent
    from unnest(ids, args, outcomes) as job (id, args, outcome) where job.outcome = 0;
    if found then
        perform jobs.wake(queue);
    end if;
end
$$;

-- The same for many jobs, of which at least one is unique or expires. See jobs.take_keys. A job is due after its delay, and not before its time.
-- Each text of `tags` is an array. `expires`: so long after it is due, a job expires.
create function jobs.enqueue_unique(
    names text[], keys text[], started boolean[], within float8[], unique_rules json[], kinds text[], queues text[], priorities smallint[],
    delays interval[], not_before timestamptz[], max_attempts smallint[], tags text[], args json[], traceparents text[], rules json[], expires interval[]
) returns table (place bigint, id bigint, outcome smallint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
#variable_conflict use_column
declare
    run_ats constant timestamptz[] := array(
        select greatest(clock_timestamp() + t.delay, t.not_before) from unnest(delays, enqueue_unique.not_before) as t (delay, not_before)
    );
    ids bigint[];
    outcomes smallint[];
begin
    select t.ids, t.outcomes into ids, outcomes from jobs.take_keys(
        names, keys, enqueue_unique.started, within, unique_rules, enqueue_unique.args, run_ats, priorities
    ) t;
    insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
    select job.id, case when job.name is null then 0 else 16 end | case when job.expires is null then 0 else 32 end, job.kind, job.queue, job.priority, job.run_at, job.max_attempts, job.tags::text[],
           job.args, job.traceparent
    from unnest(ids, outcomes, names, kinds, queues, priorities, run_ats, enqueue_unique.max_attempts, enqueue_unique.tags, enqueue_unique.args, traceparents, enqueue_unique.rules, enqueue_unique.expires)
        as job (id, outcome, name, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, rules, expires)
    where job.outcome = 0 and job.rules is null;
    if found then
        perform jobs.wake(woken.queue) from (select distinct w.queue from unnest(queues, enqueue_unique.rules) as w (queue, rules) where w.rules is null) woken;
    end if;
    if exists (select from unnest(enqueue_unique.rules) as r where r is not null) then
        with new as materialized (
            select job.*, p.* from unnest(ids, outcomes, names, kinds, queues, priorities, run_ats, enqueue_unique.max_attempts, enqueue_unique.tags, enqueue_unique.args, traceparents, enqueue_unique.rules, enqueue_unique.expires)
                as job (id, outcome, name, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, rules, expires)
            cross join lateral jobs.place(job.rules) p
            where job.outcome = 0 and job.rules is not null
        ), held as (
            insert into jobs.held (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, rules, limit_name, limit_key, most, later)
            select n.id, case when n.name is null then 0 else 16 end | case when n.expires is null then 0 else 32 end | jobs.flags(n.rules), n.kind, n.queue,
                   n.priority, n.run_at, n.max_attempts, n.tags::text[], n.args, n.traceparent, n.rules, n.limit_name, n.limit_key, n.most, n.run_at > clock_timestamp()
            from new n
        )
        insert into jobs.nudge (limit_name, limit_key) select distinct n.limit_name, n.limit_key from new n;
        perform jobs.wake_admission();
    end if;
    insert into jobs.expiry (job_id, start_by, after)
    select job.id, job.run_at + job.expires, job.expires from unnest(ids, outcomes, run_ats, enqueue_unique.expires) as job (id, outcome, run_at, expires)
    where job.outcome = 0 and job.expires is not null;
    return query select t.place, t.id, t.outcome from unnest(ids, outcomes) with ordinality as t (id, outcome, place);
end
$$;

revoke execute on function jobs.enqueue_unique_one(text, text, json, text, text, smallint, timestamptz, smallint, text[], json, text, json) from public;

revoke execute on function jobs.enqueue_unique_free(text, text, boolean, float8, text, text, text, smallint, timestamptz, smallint, text[], json, text) from public;

revoke execute on function jobs.enqueue_unique_alike(text, text[], boolean, float8, text, text, text, smallint, timestamptz, smallint, text[], json[], text) from public;

revoke execute on function jobs.enqueue_unique(text[], text[], boolean[], float8[], json[], text[], text[], smallint[], interval[], timestamptz[], smallint[], text[], json[], text[], json[], interval[]) from public;

-- Which held jobs may start: a function for limits, one for sequences and one for rates.

-- The held job whose turn it is in a sequence: the one that has the permit, because it waits for its next attempt or was retried, else the one
-- with the lowest id. Null while another job has the permit. No row if no job of the sequence is held. `turn`: there is no job with a lower id.
-- `first_permit`: there is no permit with a lower number. The planner inserts it into the statements that call it.
create function jobs.next_in_sequence(name text, key text, turn bigint default 0, first_permit bigint default 0)
returns table (id bigint, is_first boolean)
language sql stable
as $$
    select case when is_taken.it then (select s.job_id from jobs.permit s where s.limit_name = name and s.limit_key = key and s.number >= first_permit
               and exists (select from jobs.held h where h.id = s.job_id and h.flags & 4 <> 0 offset 0) limit 1)
           else first.id end, not is_taken.it
    from (
        select h.id from jobs.held h where h.flags & 4 <> 0 and h.limit_name = name and h.limit_key = key and h.id >= turn order by h.id limit 1
    ) first cross join lateral (
        select exists (select from jobs.permit s where s.limit_name = name and s.limit_key = key and s.number >= first_permit) as it
    ) is_taken
$$;

-- A part of jobs.admit, which the planner inserts into its statements. Returns the first held job of each of these keys, and how many permits of the
-- key are free. It begins to read at the floors. `has_floor`: the key has a floor. `first_permit`: the number of the first permit of the key.
create function jobs.heads(names text[], keys text[], floors json)
returns table (name text, key text, tuple tid, place smallint, run_at timestamptz, id bigint, first_permit bigint, free bigint, has_floor boolean)
language sql stable
as $$
    with head as materialized (
        select wanted.name, wanted.key, first.ctid, first.place, first.run_at, first.id, first.most, coalesce(f.first_permit, 0) as first_permit, f.name is not null as has_floor
        from unnest(names, keys) as wanted (name, key)
        left join json_to_recordset(floors) as f (name text, key text, place smallint, run_at timestamptz, id bigint, first_permit bigint)
            on f.name = wanted.name and f.key = wanted.key
        cross join lateral (
            select h.ctid, ~h.priority as place, h.run_at::timestamptz as run_at, h.id, h.most from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = wanted.name and h.limit_key = wanted.key
              and (~h.priority, h.run_at, h.id) >= (coalesce(f.place, (-32768)::smallint), coalesce(f.run_at, '-infinity'), coalesce(f.id, 0))
            order by ~h.priority, h.run_at, h.id limit 1
        ) first
    )
    -- What operators have set is read once for all keys. It is what jobs.allowed says.
    select head.name, head.key, head.ctid, head.place, head.run_at, head.id, taken.first,
           coalesce(((select json_object_agg(s.name, s.most) from jobs.limit_setting s) ->> head.name)::integer, head.most) - taken.number, head.has_floor
    from head cross join lateral (
        select count(*) as number, min(s.number) as first from jobs.permit s
        where s.limit_name = head.name and s.limit_key = head.key and s.number >= head.first_permit
    ) taken
$$;

-- A part of jobs.admit: locks held jobs of these keys, as many as have a free permit, and returns their places in the table. If queues
-- or kinds are paused, it examines few jobs more than there are free permits. Those that are paused leave the order of admission first.
-- `seen`: where the next pass may begin to read, for the keys with a floor, and for some of the keys from which it takes jobs. One in
-- `jobs_per_floor` jobs gives its key a floor. So keys from which many jobs were taken get a floor, and nothing is written for the others.
create function jobs.free_jobs(
    names text[], keys text[], floors json, paused_queues text[], paused_kinds text[], most_jobs integer,
    out places tid[], out goes_on boolean, out seen json, out writes_floors boolean
)
language plpgsql volatile
as $$
declare
    most_ahead constant integer := 500;
    jobs_per_floor constant float8 := 100;
    pauses constant boolean := cardinality(paused_queues) + cardinality(paused_kinds) > 0;
begin
    goes_on := false;
    if pauses then
        with found as materialized (
            select front.ctid from jobs.heads(names, keys, floors) head cross join lateral (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = head.name and h.limit_key = head.key
                  and (~h.priority, h.run_at, h.id) >= (head.place, head.run_at, head.id)
                order by ~h.priority, h.run_at, h.id limit most_ahead
            ) front
            where front.queue = any(paused_queues) or front.kind = any(paused_kinds)
            limit most_jobs
        ), parted as (
            update jobs.held set paused = true where ctid = any(array(
                select h.ctid from jobs.held h where h.ctid = any(array(select f.ctid from found f)) for no key update skip locked
            ))
            returning limit_name, limit_key
        ), nudged as (
            -- The next pass looks at the jobs behind them.
            insert into jobs.nudge (limit_name, limit_key, run_at) select distinct p.limit_name, p.limit_key, null::timestamptz from parted p
        )
        select count(*) > 0 into goes_on from parted;
    end if;

    with head as materialized (
        -- Finishes pass permits on without a pass, but not to these jobs (`pass_on.rs`). So they come from keys from which many jobs are taken.
        select h.*, random() < case when h.id % 256 = 0 then 0.5 else h.free / jobs_per_floor end as writes from jobs.heads(names, keys, floors) h
    ), picked as (
        select pick.ctid from head cross join lateral (
            -- The first one is known. Most keys have one free permit, and then no second search begins.
            select first.ctid from (
                select h.ctid from jobs.held h
                where h.ctid = head.tuple and not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = head.name and h.limit_key = head.key
                for update skip locked
            ) first
            union all
            select next.ctid from (
                select h.ctid from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = head.name and h.limit_key = head.key
                  and (~h.priority, h.run_at, h.id) > (head.place, head.run_at, head.id)
                order by ~h.priority, h.run_at, h.id limit greatest(head.free, 0)
                for update skip locked
            ) next
            limit greatest(head.free, 0)
        ) pick
        where not pauses
        union all
        select pick.ctid from head cross join lateral (
            select h.ctid from jobs.held h
            where h.ctid = any(array(
                select front.ctid from jobs.held front
                where not front.later and not front.paused and front.flags & 12 = 0 and front.limit_name = head.name and front.limit_key = head.key
                  and (~front.priority, front.run_at, front.id) >= (head.place, head.run_at, head.id)
                order by ~front.priority, front.run_at, front.id limit greatest(head.free, 0) + most_ahead
            )) and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            order by ~h.priority, h.run_at, h.id
            limit greatest(head.free, 0)
            for update skip locked
        ) pick
        where pauses
    )
    select array(select p.ctid from picked p limit most_jobs),
           (select json_agg(json_build_object('name', s.name, 'key', s.key, 'place', s.place, 'run_at', s.run_at, 'id', s.id, 'first_permit', s.first_permit))
            from head s where s.has_floor or s.writes),
           exists (select from head s where s.writes)
    into places, seen, writes_floors;
end
$$;

-- A part of jobs.admit: the same for sequences. Returns the place of the next job of each, if it may start now. `turn` of a floor is the id below which
-- the sequence has no job. It holds until an enqueue that began before `turn_at` commits: such a job may have a lower id.
create function jobs.free_in_sequence(
    names text[], keys text[], floors json, paused_queues text[], paused_kinds text[], out places tid[], out seen json, out writes_floors boolean
)
language plpgsql volatile
as $$
declare
    jobs_per_floor constant float8 := 100;
begin
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        -- A sweep finds it after the resume.
        update jobs.held set paused = true where ctid = any(array(
            select h.ctid from unnest(names, keys) as key (name, value)
            left join json_to_recordset(floors) as f (name text, key text, turn bigint, first_permit bigint) on f.name = key.name and f.key = key.value
            cross join lateral jobs.next_in_sequence(key.name, key.value, coalesce(f.turn, 0), coalesce(f.first_permit, 0)) next
            cross join lateral (
                select h.ctid from jobs.held h where h.id = next.id and h.flags & 4 <> 0 and not h.paused
                  and (h.queue = any(paused_queues) or h.kind = any(paused_kinds))
                for no key update skip locked
            ) h
        ));
    end if;
    with next as materialized (
        select key.name, key.value, next.id, next.is_first and f.turn is not null as has_floor, next.is_first and random() < 1 / jobs_per_floor as writes
        from unnest(names, keys) as key (name, value)
        left join json_to_recordset(floors) as f (name text, key text, turn bigint, first_permit bigint) on f.name = key.name and f.key = key.value
        cross join lateral jobs.next_in_sequence(key.name, key.value, coalesce(f.turn, 0), coalesce(f.first_permit, 0)) next
    )
    select array(
               select pick.ctid from next cross join lateral (
                   select h.ctid from jobs.held h where h.id = next.id and h.flags & 4 <> 0 and not h.later and not h.paused
                     and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
                   for update skip locked
               ) pick
           ),
           (select json_agg(json_build_object('name', s.name, 'key', s.value, 'turn', s.id, 'turn_at', clock_timestamp()))
            from next s where s.has_floor or s.writes),
           exists (select from next s where s.writes)
    into places, seen, writes_floors;
end
$$;

-- The tokens of a key with this rate, at this time. The tokens come at equal intervals (GCRA). All times are in microseconds. `every` is the time
-- between two tokens, rounded up, and `lack` the time until the key has all of them. It is at most that of an empty key, because the clock may have been
-- set back, or the job may come with another rate. `next_lack`: at this lack, the next pass should look at the key. If tokens come fast, it then takes
-- several at once: at most a quarter of those that the key can have, and those of 20 ms. `Bucket` in `jobs-core/src/rules` computes the same for SQLite, and
-- `bucket/cases.json` is tested against both. The planner inserts it into the statements that call it.
create function jobs.bucket(rule json, full_at timestamptz, at timestamptz) returns table (every bigint, lack bigint, tokens bigint, next_lack bigint)
language sql immutable
as $$
    select rate.every, lack.us, (rate.burst * rate.every - lack.us) / rate.every,
           (rate.burst - least(greatest(rate.burst / 4, 1), greatest(20000 / rate.every, 1))) * rate.every
    from (
        select (rule #>> '{rule,rate,burst}')::bigint as burst,
               ((rule #>> '{rule,rate,per}')::bigint + (rule #>> '{rule,rate,limit}')::bigint - 1) / (rule #>> '{rule,rate,limit}')::bigint as every
    ) rate cross join lateral (
        select least(greatest(0, coalesce((extract(epoch from full_at - at) * 1000000)::bigint, 0)), rate.burst * rate.every) as us
    ) lack
$$;

-- A part of jobs.admit: the same for rates. It locks and returns the places of as many jobs as there are tokens, and spends the tokens.
-- `nudged_places` and `nudged_times` have elements for these keys: where a job has come that may be below the floor. `next_at`: the earliest time when
-- one of these keys is to be looked at again.
create function jobs.free_in_rate(
    names text[], keys text[], nudged_places smallint[], nudged_times timestamptz[], paused_queues text[], paused_kinds text[], most_jobs integer,
    out places tid[], out goes_on boolean, out next_at timestamptz
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    most_ahead constant integer := 500;
    moment constant timestamptz := clock_timestamp();
    microsecond constant interval := interval '1 microsecond';
begin
    goes_on := false;
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        with found as materialized (
            -- From the floor on, unless a job may have come below it.
            select front.ctid from unnest(names, keys, nudged_places, nudged_times) as key (name, value, place, run_at)
            left join lateral (
                select r.place, r.run_at, r.id from jobs.rate r
                where r.limit_name = key.name and r.limit_key = key.value order by r.written_at desc limit 1
            ) r on coalesce((key.place, key.run_at) > (r.place, r.run_at), true)
            cross join lateral (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
                  and (~h.priority, h.run_at, h.id) >= (coalesce(r.place, (-32768)::smallint), coalesce(r.run_at, '-infinity'), coalesce(r.id, 0))
                order by ~h.priority, h.run_at, h.id limit most_ahead
            ) front
            where front.queue = any(paused_queues) or front.kind = any(paused_kinds)
            limit most_jobs
        ), parted as (
            update jobs.held set paused = true where ctid = any(array(
                select h.ctid from jobs.held h where h.ctid = any(array(select f.ctid from found f)) for no key update skip locked
            ))
            returning limit_name, limit_key
        ), nudged as (
            -- The next pass looks at the jobs behind them.
            insert into jobs.nudge (limit_name, limit_key, run_at) select distinct p.limit_name, p.limit_key, null::timestamptz from parted p
        )
        select count(*) > 0 into goes_on from parted;
    end if;

    with floor as materialized (
        -- Where it begins to read.
        select key.name, key.value, r.*, case when low.is_new then -32768 when low.is_lower then key.place else r.place end::smallint as low_place,
               case when low.is_new then '-infinity' when low.is_lower then key.run_at else r.run_at end as low_run_at,
               case when low.is_new or low.is_lower then 0 else r.id end as low_id
        from unnest(names, keys, nudged_places, nudged_times) as key (name, value, place, run_at)
        left join lateral (
            select r.ctid as tuple, r.written_at, r.full_at, r.next_at, r.place, r.run_at, r.id from jobs.rate r
            where r.limit_name = key.name and r.limit_key = key.value order by r.written_at desc limit 1
        ) r on true
        cross join lateral (select r.tuple is null as is_new, (key.place, key.run_at) <= (r.place, r.run_at) as is_lower) low
        where key.name is not null
    ), bucket as materialized (
        select floor.*, head.place as head_place, head.run_at as head_run_at, head.id as head_id, b.* from floor
        left join lateral (
            select case when h.flags & 128 = 0 then h.rules -> 0 else jobs.rule_of(h.rules, h.limit_name) end as rule,
                   ~h.priority as place, h.run_at::timestamptz as run_at, h.id
            from jobs.held h
            where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = floor.name and h.limit_key = floor.value
              and (~h.priority, h.run_at, h.id) >= (floor.low_place, floor.low_run_at, floor.low_id)
            order by ~h.priority, h.run_at, h.id limit 1
        ) head on true
        cross join lateral jobs.bucket(head.rule, floor.full_at, moment) b
        -- One without a job does not wait any more.
        where head.id is not null or floor.next_at is not null
    ), counted as materialized (
        select bucket.*, (
                   select count(*) from (
                       select from jobs.held h
                       where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = bucket.name and h.limit_key = bucket.value
                         and (~h.priority, h.run_at, h.id) >= (bucket.head_place, bucket.head_run_at, bucket.head_id)
                       order by ~h.priority, h.run_at, h.id limit bucket.tokens + 1
                   ) job
               ) as jobs
        from bucket
    ), free as materialized (
        -- A pass moves at most so many jobs. The next one moves the others at once.
        select counted.*, least(tokens, jobs, greatest(0, most_jobs - coalesce(sum(least(tokens, jobs)) over before, 0)))::bigint as number
        from counted window before as (order by name, value rows between unbounded preceding and 1 preceding)
    ), picked as materialized (
        select free.*, array(
            select h.ctid from jobs.held h
            where h.ctid = any(array(
                select front.ctid from jobs.held front
                where not front.later and not front.paused and front.flags & 8 <> 0 and front.limit_name = free.name and front.limit_key = free.value
                  and (~front.priority, front.run_at, front.id) >= (free.head_place, free.head_run_at, free.head_id)
                order by ~front.priority, front.run_at, front.id limit free.number
            )) and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            for update skip locked
        ) as places
        from free
    ), later as materialized (
        select p.*, coalesce(moment + left_over.lack * microsecond, p.full_at) as later_full_at,
               case when p.number < least(p.tokens, p.jobs) then moment
                    -- A later sweep takes what was skipped.
                    when p.jobs > p.tokens and cardinality(p.places) = p.number
                    then moment + (left_over.lack - p.next_lack) * microsecond end as later_next_at
        from picked p cross join lateral (select p.lack + cardinality(p.places) * p.every as lack) left_over
    ), written as materialized (
        select l.* from later l
        where l.places <> '{}' or l.later_next_at is distinct from l.next_at or l.later_full_at <> l.full_at
           or (l.head_place, l.head_run_at, l.head_id) < (l.place, l.run_at, l.id)
    ), replaced as (
        delete from jobs.rate where ctid = any(array(select w.tuple from written w where w.tuple is not null))
    ), spent as (
        insert into jobs.rate (limit_name, limit_key, written_at, full_at, next_at, place, run_at, id)
        select w.name, w.value, greatest(moment, w.written_at + microsecond), w.later_full_at, w.later_next_at,
               coalesce(w.head_place, w.place), coalesce(w.head_run_at, w.run_at), coalesce(w.head_id, w.id)
        from written w
    )
    select array(select unnest(p.places) from picked p), goes_on or exists (select from picked p where p.number < least(p.tokens, p.jobs)),
           (select min(w.later_next_at) from written w)
    into places, goes_on, next_at;
end
$$;

-- Which held jobs of a limit with tenants may start.

-- The next tenants of a key that have waiting jobs, in their turns, with the place of the first job of each. First the tenants after the one that was served
-- last, then the others. Jobs without a tenant are one tenant, whose name is empty. Each tenant is found by one probe.
create function jobs.next_tenants(name text, key text, after text, with_empty boolean, most bigint)
returns table (tenant text, place smallint, run_at timestamptz, id bigint)
language plpgsql stable
as $$
#variable_conflict use_variable
begin
    return query
    with recursive later as (
        (select (h.rules #>> '{0,tenant}') collate "C" as tenant, ~h.priority as place, h.run_at::timestamptz as run_at, h.id from jobs.held h
         where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
           and (h.rules #>> '{0,tenant}') collate "C" > after
         order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1)
        union all
        select next.* from later l cross join lateral (
            select (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at::timestamptz, h.id from jobs.held h
            where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
              and (h.rules #>> '{0,tenant}') collate "C" > l.tenant
            order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1
        ) next
    ), earlier as (
        (select (h.rules #>> '{0,tenant}') collate "C" as tenant, ~h.priority as place, h.run_at::timestamptz as run_at, h.id from jobs.held h
         where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
           and (h.rules #>> '{0,tenant}') collate "C" > '' and (h.rules #>> '{0,tenant}') collate "C" <= after
         order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1)
        union all
        select next.* from earlier e cross join lateral (
            select (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at::timestamptz, h.id from jobs.held h
            where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
              and (h.rules #>> '{0,tenant}') collate "C" > e.tenant and (h.rules #>> '{0,tenant}') collate "C" <= after
            order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1
        ) next
    )
    select * from later
    union all select '', 0::smallint, '-infinity'::timestamptz, 0::bigint where with_empty
    union all select * from earlier limit most;
end
$$;

-- A part of jobs.admit: the same for one key with tenants. The tenants take turns: each gets one job, then each a second one, and so on. In the
-- next pass the tenant after the last one begins. It reads at most twice as many jobs as there are free permits, and few more if something is
-- paused. So if few tenants have many jobs, the next pass continues. `head_..` and `free` are what jobs.heads says.
create function jobs.free_of_tenants(
    name text, key text, head_place smallint, head_run_at timestamptz, head_id bigint, free bigint,
    paused_queues text[], paused_kinds text[], most_jobs bigint, out places tid[], out goes_on boolean
)
language plpgsql volatile
as $$
declare
    -- Jobs without a tenant are found among so many of the key, so that no pass reads many jobs for them.
    most_beside constant integer := 50;
    most_ahead constant bigint := case when cardinality(paused_queues) + cardinality(paused_kinds) > 0 then 500 else 0 end;
    turn record;
    beside tid[];
    last text;
    is_cut boolean;
    is_over boolean;
begin
    places := '{}'; goes_on := false;
    if free > 0 then
        select t.ctid as place, t.written_at, coalesce(t.after, '') as after into turn from (select) one left join lateral (
            select f.ctid, f.written_at, f.after from jobs.fair_turn f where f.limit_name = name and f.limit_key = key order by f.written_at desc limit 1
        ) t on true;
        free := least(free, most_jobs);
        beside := array(
            select h.ctid from (
                select f.ctid, f.flags, f.rules, f.priority, f.run_at, f.id from jobs.held f
                where not f.later and not f.paused and f.flags & 12 = 0 and f.limit_name = name and f.limit_key = key
                  and (~f.priority, f.run_at, f.id) >= (head_place, head_run_at, head_id)
                order by ~f.priority, f.run_at, f.id limit most_beside
            ) h
            where h.flags & 256 = 0 or coalesce(h.rules #>> '{0,tenant}', '') = ''
        );
        with turns as materialized (
            select * from jobs.next_tenants(name, key, turn.after, cardinality(beside) > 0, free) with ordinality as t (tenant, place, run_at, id, turn)
        ), size as materialized (
            select free / count(*) + 1 + most_ahead / count(*) as of_each from turns having count(*) > 0
        ), front as materialized (
            select t.tenant, t.turn, job.ctid, job.is_paused, job.number,
                   row_number() over (partition by t.turn, job.is_paused order by job.number) as round
            from turns t cross join lateral (
                select h.ctid, h.queue = any(paused_queues) or h.kind = any(paused_kinds) as is_paused,
                       row_number() over (order by ~h.priority, h.run_at, h.id) as number
                from (
                    (select f.ctid, f.queue, f.kind, f.priority, f.run_at, f.id from jobs.held f
                     where not f.later and not f.paused and f.flags & 256 <> 0 and f.limit_name = name and f.limit_key = key
                       and (f.rules #>> '{0,tenant}') collate "C" = t.tenant and t.tenant <> ''
                       and (~f.priority, f.run_at, f.id) >= (t.place, t.run_at, t.id)
                     order by ~f.priority, f.run_at, f.id limit (select s.of_each from size s))
                    union all
                    (select f.ctid, f.queue, f.kind, f.priority, f.run_at, f.id from jobs.held f where f.ctid = any(beside) and t.tenant = '')
                ) h
            ) job
        ), parted as (
            -- Those that are paused leave the order of admission. The next pass looks at the jobs behind them.
            update jobs.held set paused = true where ctid = any(array(
                select h.ctid from jobs.held h where h.ctid = any(array(select f.ctid from front f where f.is_paused)) for no key update skip locked
            ))
            returning true
        ), pick as materialized (
            select f.ctid, f.tenant, f.round, f.turn from front f where not f.is_paused order by f.round, f.turn limit free
        )
        select array(select h.ctid from jobs.held h where h.ctid = any(array(select p.ctid from pick p)) for update skip locked),
               (select p.tenant from pick p order by p.round desc, p.turn desc limit 1),
               exists (select from parted),
               (select count(*) from pick) < free and exists (select from front f cross join size s where f.number = s.of_each) or free = most_jobs,
               not exists (select from turns t where t.tenant <> '')
        into places, last, goes_on, is_cut, is_over;
        -- If other sessions have locked all of them, a later sweep takes them.
        goes_on := goes_on or is_cut and (cardinality(places) > 0 or most_jobs = 0);
        if is_over and turn.place is not null then
            -- The next pass takes the others in the usual order.
            delete from jobs.fair_turn where ctid = turn.place;
            goes_on := true;
        elsif last <> turn.after then
            delete from jobs.fair_turn where ctid = turn.place;
            insert into jobs.fair_turn (limit_name, limit_key, written_at, after)
            values (name, key, greatest(clock_timestamp(), turn.written_at + interval '1 microsecond'), last);
        end if;
    end if;
    if goes_on then
        insert into jobs.nudge (limit_name, limit_key, run_at) values (name, key, null);
    end if;
end
$$;

-- A part of jobs.admit: the same for those of these keys for which jobs with tenants wait. `other_names` and `other_keys` are the others, whose jobs
-- start in the usual order.
create function jobs.free_in_fair(
    names text[], keys text[], floors json, paused_queues text[], paused_kinds text[], most_jobs integer,
    out places tid[], out goes_on boolean, out seen json, out writes_floors boolean, out other_names text[], out other_keys text[]
)
language plpgsql volatile
as $$
declare
    jobs_per_floor constant float8 := 100;
    fair_names text[];
    fair_keys text[];
    head record;
    one record;
    all_seen json[] := '{}';
begin
    places := '{}'; goes_on := false; writes_floors := false;
    -- A key with a turn has tenants. To look for a job would be to read the entries of those that have left.
    select coalesce(array_agg(k.name) filter (where k.is_fair), '{}'), coalesce(array_agg(k.value) filter (where k.is_fair), '{}'),
           coalesce(array_agg(k.name) filter (where not k.is_fair), '{}'), coalesce(array_agg(k.value) filter (where not k.is_fair), '{}')
    into fair_names, fair_keys, other_names, other_keys from (
        select key.name, key.value, (
            select true from jobs.fair_turn t where t.limit_name = key.name and t.limit_key = key.value order by t.written_at desc limit 1
        ) is not null or exists (
            select from jobs.held h where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = key.name and h.limit_key = key.value
        ) as is_fair
        from unnest(names, keys) as key (name, value)
    ) k;
    for head in select h.*, random() < h.free / jobs_per_floor as writes from jobs.heads(fair_names, fair_keys, floors) h loop
        select f.places, f.goes_on into one from jobs.free_of_tenants(
            head.name, head.key, head.place, head.run_at, head.id, head.free, paused_queues, paused_kinds, most_jobs - cardinality(places)
        ) f;
        places := places || one.places;
        goes_on := goes_on or one.goes_on;
        writes_floors := writes_floors or head.writes;
        if head.has_floor or head.writes then
            all_seen := array_append(all_seen, json_build_object(
                'name', head.name, 'key', head.key, 'place', head.place, 'run_at', head.run_at, 'id', head.id, 'first_permit', head.first_permit
            ));
        end if;
    end loop;
    seen := array_to_json(all_seen);
end
$$;

-- Jobs with several rules, which wait in lanes.

-- Whether a job of the lane waits at one of its rules.
create function jobs.waits_at_limit(lane text) returns boolean
language sql stable
as $$
    select exists (
        select from jobs.held h where h.flags & 132 = 128 and h.limit_name <> '' and jobs.lane(h.rules) collate "C" = lane
          and not h.later and not h.paused
    )
$$;

-- When a held job may get its next token. Null if it does not wait for one. A job in a lane waits with the first one of its lane.
create function jobs.next_token_of(job jobs.held) returns timestamptz
language sql stable
as $$
    select case when job.limit_name = '' then (
        select r.next_at from jobs.held h join jobs.rate r on r.limit_name = h.limit_name and r.limit_key = h.limit_key
        where h.flags & 132 = 128 and h.limit_name <> '' and jobs.lane(h.rules) collate "C" = job.limit_key and h.flags & 8 <> 0
        limit 1
    ) when job.flags & 8 <> 0 then (
        select r.next_at from jobs.rate r where r.limit_name = job.limit_name and r.limit_key = job.limit_key
    ) end
$$;

-- The rules of a job without its sequence.
create function jobs.beside_sequence(rules json) returns setof json
language sql immutable
as $$
    select r from json_array_elements(rules) r where r #> '{rule,sequence}' is null
$$;

-- The tokens of a rate at this time.
create function jobs.tokens(rule json, at timestamptz) returns bigint
language sql stable
as $$
    select b.tokens from (select rule) one left join lateral (
        select r.full_at from jobs.rate r where r.limit_name = rule ->> 'name' and r.limit_key = rule ->> 'key' order by r.written_at desc limit 1
    ) r on true
    cross join lateral jobs.bucket(rule, r.full_at, at) b
$$;

-- Spends this many of these tokens. A negative number gives back those that the same pass has spent.
create function jobs.spend_tokens(rule json, number bigint, at timestamptz) returns void
language sql volatile
as $$
    with earlier as materialized (
        select r.ctid as tuple, r.* from jobs.rate r where r.limit_name = rule ->> 'name' and r.limit_key = rule ->> 'key' order by r.written_at desc limit 1
    ), replaced as (
        delete from jobs.rate where ctid = any(array(select e.tuple from earlier e))
    )
    insert into jobs.rate (limit_name, limit_key, written_at, full_at, next_at, place, run_at, id)
    select rule ->> 'name', rule ->> 'key', greatest(at, e.written_at + interval '1 microsecond'),
           greatest(e.full_at, at) + number * b.every * interval '1 microsecond', e.next_at,
           coalesce(e.place, (-32768)::smallint), coalesce(e.run_at, '-infinity'), coalesce(e.id, 0)
    from jobs.bucket(rule, null, at) b left join earlier e on true
$$;

-- How many jobs one of several rules allows to start at this time.
create function jobs.free_of(rule json, at timestamptz) returns bigint
language sql stable
as $$
    select case when rule #> '{rule,rate}' is not null then jobs.tokens(rule, at)
                else jobs.allowed(rule ->> 'name', (rule #>> '{rule,concurrency,most}')::integer)
                     - (select count(*) from jobs.permit s where s.limit_name = rule ->> 'name' and s.limit_key = rule ->> 'key') end
$$;

-- A part of jobs.admit: starts these jobs of one lane, and takes the permits and tokens of all their rules.
create function jobs.start_in_lane(places tid[], rules json, at timestamptz) returns bigint
language plpgsql volatile
as $$
begin
    insert into jobs.permit (job_id, limit_name, limit_key)
    select h.id, r ->> 'name', r ->> 'key' from jobs.held h cross join jobs.beside_sequence(start_in_lane.rules) r
    where h.ctid = any(places) and r #> '{rule,rate}' is null
    on conflict do nothing;
    perform jobs.spend_tokens(r, cardinality(places), at) from json_array_elements(start_in_lane.rules) r where r #> '{rule,rate}' is not null;
    return jobs.admit_held(places, false);
end
$$;

-- A part of jobs.admit: what happens to a held job that the database does not make available. If the reason is its content, it is set apart: a
-- constraint or a trigger refuses it, or its arguments were deleted. Other reasons may pass, such as a lock, a full disk or a missing grant. Then
-- the job waits, and the jobs behind it are admitted first. A job of a sequence keeps its place, so its sequence waits with it.
create function jobs.refuse(place tid, state text, message text, out set_apart bigint)
language plpgsql volatile
as $$
begin
    set_apart := 0;
    if left(state, 2) in ('22', '23', 'P0') then
        begin
            perform jobs.set_held_apart(place, message);
            set_apart := 1;
            return;
        exception when others then
            state := sqlstate;
            message := format('%s; and it cannot be set apart: %s', message, sqlerrm);
        end;
    end if;
    with put_off as (
        update jobs.held h set later = true, run_at = jobs.note_failure(h.limit_name, h.limit_key, h.id, state, message) where h.ctid = place
        returning h.limit_name, h.limit_key
    )
    -- The next pass looks at the jobs behind it.
    insert into jobs.nudge (limit_name, limit_key, run_at) select p.limit_name, p.limit_key, null from put_off p;
end
$$;

-- A part of jobs.admit: makes these jobs of one key available one by one, so that each can fail alone. `spends`: jobs.free_in_rate has spent a token
-- for each. `checks`: it also checks deferred constraints at once, which would otherwise fail with the commit of the whole pass. `until`: after this
-- time it leaves the others to the next pass, because each of them may wait for a lock. It tries at least one.
create function jobs.admit_each(
    places tid[], spends boolean, checks boolean, until timestamptz, out admitted bigint, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    held jobs.held;
    number bigint;
    state text;
    message text;
begin
    admitted := 0; set_apart := 0;
    for place in 1 .. cardinality(places) loop
        if place > 1 and clock_timestamp() > until then
            select * into held from jobs.held h where h.ctid = places[place];
            if spends then
                perform jobs.spend_tokens(held.rules -> 0, place - 1 - cardinality(places), clock_timestamp());
            end if;
            insert into jobs.nudge (limit_name, limit_key, run_at) values (held.limit_name, held.limit_key, null);
            return;
        end if;
        begin
            number := jobs.admit_held(places[place:place], true);
            if checks then
                set constraints all immediate;
            end if;
            admitted := admitted + number;
        exception when others then
            state := sqlstate;
            message := sqlerrm;
            select * into held from jobs.held h where h.ctid = places[place];
            set_apart := set_apart + (select r.set_apart from jobs.refuse(places[place], state, message) r);
            if spends then
                perform jobs.spend_tokens(held.rules -> 0, -1, clock_timestamp());
            end if;
        end;
    end loop;
end
$$;

-- A part of jobs.admit: the same for one job of a lane.
create function jobs.start_or_refuse(place tid, rules json, at timestamptz, out started bigint, out set_apart bigint)
language plpgsql volatile
as $$
declare
    state text;
    message text;
begin
    started := 0; set_apart := 0;
    started := jobs.start_in_lane(array[place], rules, at);
exception when others then
    state := sqlstate;
    message := sqlerrm;
    started := 0;
    set_apart := (select r.set_apart from jobs.refuse(place, state, message) r);
end
$$;

-- A part of jobs.admit: lets a job of a lane wait at one of its rules, which does not allow it. Who frees something there nudges its key. So does this
-- function, because the job is new there: the next look finds the time of the next token.
create function jobs.wait_at(place tid, rule json) returns void
language plpgsql volatile
as $$
begin
    update jobs.held set limit_name = rule ->> 'name', limit_key = rule ->> 'key',
        most = coalesce(rule #>> '{rule,concurrency,most}', rule #>> '{rule,rate,limit}')::integer,
        flags = flags & ~12 | case when rule #> '{rule,rate}' is null then 0 else 8 end
    where ctid = place;
    insert into jobs.nudge (limit_name, limit_key) values (rule ->> 'name', rule ->> 'key');
end
$$;

-- A part of jobs.admit: starts as many jobs of a lane as all their rules allow. The next job then waits at a rule that does not allow it. Jobs of a
-- lane have the same rules and keys, so the others need not be examined before this one has started. A full limit costs one check, however
-- many jobs wait. `until`: after this time it leaves the others to the next pass.
create function jobs.free_in_lane(
    lane text, paused_queues text[], paused_kinds text[], most_jobs bigint, at timestamptz, one_by_one boolean, until timestamptz,
    out admitted bigint, out goes_on boolean, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    most_ahead constant integer := 500;
    first json;
    number bigint;
    tried bigint := 0;
    places tid[];
    one record;
begin
    admitted := 0; goes_on := false; set_apart := 0;
    if jobs.waits_at_limit(lane) then
        return;
    end if;
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        -- The next pass looks at the jobs behind them.
        update jobs.held set paused = true where ctid = any(array(
            select front.ctid from (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = lane
                order by ~h.priority, h.run_at, h.id limit most_ahead for no key update skip locked
            ) front
            where front.queue = any(paused_queues) or front.kind = any(paused_kinds)
        ));
        if found then
            insert into jobs.nudge (limit_name, limit_key) values ('', lane);
            goes_on := true;
            return;
        end if;
    end if;
    loop
        select h.rules into first from jobs.held h
        where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = lane
        order by ~h.priority, h.run_at, h.id limit 1;
        exit when not found;
        -- So many jobs, also if they cannot start, are for another pass, too.
        if greatest(admitted, tried) >= most_jobs or tried > 0 and clock_timestamp() > until then
            insert into jobs.nudge (limit_name, limit_key, run_at) values ('', lane, null);
            goes_on := true;
            return;
        end if;
        tried := tried + 1;
        select least(min(jobs.free_of(r, at)), case when one_by_one then 1 else most_jobs - admitted end) into number from jobs.beside_sequence(first) r;
        places := array(
            select h.ctid from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = lane
            order by ~h.priority, h.run_at, h.id limit greatest(number, 1) for update skip locked
        );
        -- A later sweep takes what was skipped.
        exit when cardinality(places) = 0;
        if number <= 0 then
            perform jobs.wait_at(places[1], jobs.full_rule(first, at));
            goes_on := jobs.full_rule(first, at) #> '{rule,rate}' is not null;
            return;
        end if;
        if one_by_one then
            select s.started, s.set_apart into one from jobs.start_or_refuse(places[1], first, at) s;
            admitted := admitted + one.started;
            set_apart := set_apart + one.set_apart;
        else
            admitted := admitted + jobs.start_in_lane(places, first, at);
        end if;
    end loop;
end
$$;

-- The first of several rules that allows no job to start at this time.
create function jobs.full_rule(rules json, at timestamptz) returns json
language sql stable
as $$
    select r from jobs.beside_sequence(rules) with ordinality as each (r, place) where jobs.free_of(r, at) <= 0 order by place limit 1
$$;

-- A part of jobs.admit: jobs with several rules. `places` are those whose turn it is, and those that wait at a limit which is not full any
-- more. It starts a job only if all its rules allow it, and then takes everything at once: no permit is taken by a job that waits elsewhere.
-- Only a sequence keeps its permit: its next job must not overtake this one. `until`: after this time it leaves the others to the next pass.
create function jobs.admit_several(
    places tid[], names text[], keys text[], paused_queues text[], paused_kinds text[], most_jobs bigint, one_by_one boolean, until timestamptz,
    out admitted bigint, out goes_on boolean, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    at constant timestamptz := clock_timestamp();
    lanes text[] := array(select key.value from unnest(names, keys) as key (name, value) where key.name = '');
    late_names text[] := '{}';
    late_keys text[] := '{}';
    tried bigint := 0;
    job record;
    rule json;
    lane text;
    one record;
begin
    admitted := 0; goes_on := false; set_apart := 0;
    for job in
        select h.ctid as place, h.id, h.flags, h.rules, h.limit_name, h.limit_key from jobs.held h
        where h.ctid = any(places) and h.limit_name <> '' order by h.priority desc, h.run_at, h.id
    loop
        lane := jobs.lane(job.rules);
        if job.flags & 4 <> 0 then
            -- Its turn has come.
            lanes := lanes || lane;
            insert into jobs.permit as s (job_id, limit_name, limit_key) values (job.id, job.limit_name, job.limit_key)
            on conflict (job_id, limit_name) do update set halted_at = null where s.halted_at is not null;
            update jobs.held set limit_name = '', limit_key = lane, most = 1, flags = flags & ~4 where ctid = job.place;
            continue;
        end if;
        if job.flags & 8 <> 0 then
            -- jobs.free_in_rate has spent it.
            perform jobs.spend_tokens(jobs.rule_of(job.rules, job.limit_name), -1, at);
        end if;
        if tried > 0 and clock_timestamp() > until then
            late_names := late_names || job.limit_name;
            late_keys := late_keys || job.limit_key;
            continue;
        end if;
        tried := tried + 1;
        lanes := lanes || lane;
        rule := jobs.full_rule(job.rules, at);
        if rule is null and one_by_one then
            select s.started, s.set_apart into one from jobs.start_or_refuse(job.place, job.rules, at) s;
            admitted := admitted + one.started;
            set_apart := set_apart + one.set_apart;
        elsif rule is null then
            admitted := admitted + jobs.start_in_lane(array[job.place], job.rules, at);
        elsif rule ->> 'name' <> job.limit_name or job.flags & 8 <> 0 then
            perform jobs.wait_at(job.place, rule);
            -- The jobs behind it.
            insert into jobs.nudge (limit_name, limit_key) values (job.limit_name, job.limit_key);
            goes_on := true;
        end if;
    end loop;
    for lane in
        select each.lane from (select distinct u.lane from unnest(lanes) as u (lane)) each cross join lateral (
            select h.priority, h.run_at, h.id from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = each.lane
            order by ~h.priority, h.run_at, h.id limit 1
        ) first
        order by first.priority desc, first.run_at, first.id
    loop
        if tried > 0 and clock_timestamp() > until then
            late_names := late_names || ''::text;
            late_keys := late_keys || lane;
            continue;
        end if;
        tried := tried + 1;
        select f.admitted, f.goes_on, f.set_apart into one
        from jobs.free_in_lane(lane, paused_queues, paused_kinds, most_jobs - admitted, at, one_by_one, until) f;
        admitted := admitted + one.admitted;
        goes_on := goes_on or one.goes_on;
        set_apart := set_apart + one.set_apart;
    end loop;
    if late_names <> '{}' then
        insert into jobs.nudge (limit_name, limit_key, run_at)
        select distinct late.name, late.key, null::timestamptz from unnest(late_names, late_keys) as late (name, key);
        goes_on := true;
    end if;
end
$$;

-- A pass of admission.

-- The seconds until admission examines a key again, because a token comes, or because a pass has failed there. Null if there is no such key. The
-- tokens of a key that passes leave out are not waited for.
create function jobs.next_token(sweeps boolean) returns double precision
language plpgsql volatile
as $$
begin
    return (select extract(epoch from min(n.at) - clock_timestamp())::float8 from (
        (select r.next_at from jobs.rate r
         where r.next_at >= coalesce((select f.next_at from jobs.admission_floor f where not sweeps order by f.number desc limit 1), '-infinity') and not exists (
             select from jobs.admission_failure f where f.limit_name = r.limit_name and f.limit_key = r.limit_key and f.job_id = 0 offset 0
         ) order by r.next_at limit 1)
        union all
        select f.next_at from jobs.admission_failure f where f.job_id = 0
    ) n (at));
end
$$;

-- A part of jobs.admit: notes that it could not handle this key or this job, or, without a key, end it, and returns when it tries again: after a second, and twice as late
-- each time, up to a minute. A pass that was cancelled has kept all others waiting, so it comes again up to ten minutes later.
create function jobs.note_failure(name text, key text, job bigint, state text, message text) returns timestamptz
language plpgsql volatile
as $$
declare
    longest constant float8 := case when state = '57014' then 600 else 60 end;
    again timestamptz;
begin
    insert into jobs.admission_failure as f (limit_name, limit_key, job_id, next_at, message)
    values (name, key, job, clock_timestamp() + interval '1 second', concat(left(message, 500), ' (' || state || ')'))
    on conflict (limit_name, limit_key, job_id) do update set
        failures = least(f.failures, 999999) + 1, message = excluded.message,
        next_at = clock_timestamp() + least(power(2, least(f.failures, 20)), longest) * interval '1 second'
    returning f.next_at into again;
    return again;
end
$$;

-- A part of jobs.admit: moves the held jobs at these places, which it has locked. Returns how many.
create function jobs.admit_held(places tid[], may_have_permits boolean) returns bigint
language plpgsql volatile
as $$
declare
    admitted bigint;
    queues text[];
begin
    with moved as (
        delete from jobs.held where ctid = any(places) returning *
    ), taken as (
        insert into jobs.permit (job_id, limit_name, limit_key, number)
        select m.id, m.limit_name, m.limit_key, coalesce((select f.number from jobs.admission_floor f order by f.number desc limit 1), 0)
        from moved m where m.flags & 136 = 0 and not may_have_permits
    ), kept as (
        -- Somebody has made a job with a permit held. `on conflict` takes half as long again, so it is for the second try only.
        insert into jobs.permit (job_id, limit_name, limit_key)
        select m.id, m.limit_name, m.limit_key from moved m where m.flags & 136 = 0 and may_have_permits
        on conflict do nothing
    ), goes_on as (
        -- A discarded job that was retried does not halt its sequence any more.
        update jobs.permit set halted_at = null
        where job_id = any(array(select m.id from moved m where m.flags & 4 <> 0)) and halted_at is not null
    ), made as (
        -- A claim would find an earlier time than now only after a rescan.
        insert into jobs.ready (id, run_at, lease, attempt, max_attempts, crashes, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules)
        select m.id, clock_timestamp(), m.lease, m.attempt, m.max_attempts, m.crashes, m.enqueued_at,
               case when m.flags & 128 = 0 then m.flags else m.flags & ~12 | case when m.rules #> '{0,rule,sequence}' is null then 0 else 4 end end,
               m.priority, m.kind, m.queue, m.tags, m.args, m.traceparent, m.rules
        from moved m order by m.priority desc, m.run_at, m.id
        returning queue
    )
    select count(*), array_agg(distinct m.queue) into admitted, queues from made m;
    -- The text of jobs.wake: the server would plan a call anew in each pass.
    perform jobs.notify_workers(q.queue) from unnest(queues) as q (queue)
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(q.queue) & 1023) = 1);
    return admitted;
end
$$;

-- A part of jobs.admit: moves a held job that the database refuses to make available into jobs.dead_letter. The rest of its key continues.
create function jobs.set_held_apart(place tid, message text) returns void
language plpgsql volatile
as $$
begin
    with gone as (
        delete from jobs.held where ctid = place returning *
    ), halted as (
        -- The later jobs of its sequence must not start without it, unless it says so.
        insert into jobs.permit (job_id, limit_name, limit_key, halted_at)
        select g.id, g.rules #>> '{0,name}', g.rules #>> '{0,key}', clock_timestamp() from gone g where g.rules #>> '{0,rule,sequence,on_discard}' = 'halt'
        on conflict (job_id, limit_name) do update set halted_at = excluded.halted_at
    ), freed as (
        delete from jobs.permit where job_id = any(array(select g.id from gone g where coalesce(g.rules #>> '{0,rule,sequence,on_discard}', '') <> 'halt'))
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key)
        select g.limit_name, g.limit_key from gone g
        union select g.rules #>> '{0,name}', g.rules #>> '{0,key}' from gone g where g.rules #> '{0,rule,sequence}' is not null
        union select '', jobs.lane(g.rules) from gone g where g.flags & 128 <> 0
    )
    insert into jobs.dead_letter (id, kind, queue, reason, job)
    select g.id, g.kind, g.queue, 'the database refused to make it available: ' || left(message, 500), row_to_json(g) from gone g;
end
$$;

-- A part of jobs.admit: the floors, lowered for keys to which a transaction has brought a job below. Null if no floor is too high. A nudge does not
-- say which ids its jobs have. So in a sequence it lowers the floor if the transaction had drawn them before.
--
-- It reads no table. So a hash join is safe, and it is ten times as fast as a nested loop over a thousand keys and 32 floors.
create function jobs.lowered_floors(floors json, names text[], keys text[], places smallint[], times timestamptz[]) returns json
language plpgsql stable set enable_hashjoin = on
as $$
begin
    return (select json_agg(json_build_object(
        'name', f.name, 'key', f.key, 'place', case when low.is then new.place else f.place end, 'run_at', case when low.is then new.run_at else f.run_at end,
        'id', case when low.is then 0 else f.id end, 'turn', case when low.is_turn then 0 else f.turn end, 'turn_at', f.turn_at, 'first_permit', f.first_permit
    ))
    from json_to_recordset(lowered_floors.floors)
        as f (name text, key text, place smallint, run_at timestamptz, id bigint, turn bigint, turn_at timestamptz, first_permit bigint)
    left join unnest(lowered_floors.names, lowered_floors.keys, lowered_floors.places, lowered_floors.times) as new (name, key, place, run_at)
        on new.name = f.name and new.key = f.key
    cross join lateral (
        select coalesce((new.place, new.run_at) <= (f.place, f.run_at), false) as is, coalesce(new.run_at <= f.turn_at, false) as is_turn
    ) low
    having bool_or(low.is or low.is_turn));
end
$$;

-- A part of jobs.admit: writes new floors, up to 32 in all. `floors` are several lists. For a key that is in two of them, the first one counts. The last
-- are the earlier floors, of keys at which this pass has not looked. A key without permits gets none with a lower number than this one.
create function jobs.write_floors(earlier bigint, floors json[], next_at timestamptz) returns void
language plpgsql volatile
as $$
declare
    most_floors constant integer := 32;
begin
    delete from jobs.admission_floor where number = earlier;
    insert into jobs.admission_floor (number, floors, next_at)
    select earlier + 1, coalesce(json_agg(json_build_object(
        'name', f.name, 'key', f.key, 'place', f.place, 'run_at', f.run_at, 'id', f.id, 'turn', f.turn, 'turn_at', f.turn_at,
        'first_permit', coalesce(f.first_permit, earlier + 1)
    )), '[]'), write_floors.next_at
    from (
        select one.* from (
            select distinct on (o.name, o.key) o.*, list.number as list from unnest(write_floors.floors) with ordinality as list (floors, number)
            cross join json_to_recordset(list.floors)
                as o (name text, key text, place smallint, run_at timestamptz, id bigint, turn bigint, turn_at timestamptz, first_permit bigint)
            order by o.name, o.key, list.number
        ) one
        order by one.list limit most_floors
    ) f;
end
$$;

-- A part of jobs.admit: moves as many held jobs of these keys as may start. If anything fails, all of it is undone, unless `one_by_one`: then each job
-- can fail alone. `nudged_..`: first these keys, and then those with a nudge that are left out. It may need to lower their floors. `until`: after
-- this time it leaves the other jobs to the next pass, if it handles them one by one.
create function jobs.admit_keys(
    names text[], keys text[], nudged_names text[], nudged_keys text[], nudged_places smallint[], nudged_times timestamptz[],
    paused_queues text[], paused_kinds text[], one_by_one boolean, checks boolean, until timestamptz,
    out admitted bigint, out more boolean, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    most_jobs constant integer := case when one_by_one then 100 else 5000 end;
    floor_number bigint;
    floors json;
    lowered json;
    seen json;
    turns json;
    writes_floors boolean := false;
    writes_turns boolean := false;
    waits_from timestamptz;
    earliest timestamptz;
    is_cut boolean;
    places tid[];
    fair_places tid[] := '{}';
    fair_seen json;
    writes_fair boolean := false;
    ordered_names text[] := names;
    ordered_keys text[] := keys;
    rated_places tid[] := '{}';
    several_places tid[];
    one record;
    several record;
begin
    admitted := 0; more := false; set_apart := 0;
    -- One key alone is read from its beginning.
    if not one_by_one then
        select f.number, f.floors, f.next_at into floor_number, floors, waits_from from jobs.admission_floor f order by f.number desc limit 1;
    end if;
    -- A nudge without a time has brought no job.
    lowered := case when floors is not null and array_remove(nudged_times, null) <> '{}'
                    then jobs.lowered_floors(floors, nudged_names, nudged_keys, nudged_places, nudged_times) end;
    if jobs.is_used('jobs.held_fair') then
        select f.places, f.goes_on, f.seen, f.writes_floors, f.other_names, f.other_keys
        into fair_places, more, fair_seen, writes_fair, ordered_names, ordered_keys
        from jobs.free_in_fair(names, keys, coalesce(lowered, floors), paused_queues, paused_kinds, most_jobs) f;
    end if;
    select f.places, more or f.goes_on, f.seen, f.writes_floors into places, more, seen, writes_floors
    from jobs.free_jobs(ordered_names, ordered_keys, coalesce(lowered, floors), paused_queues, paused_kinds, most_jobs) f;
    places := places || fair_places;
    if jobs.is_used('jobs.held_sequence') then
        select f.places, f.seen, f.writes_floors into one
        from jobs.free_in_sequence(names, keys, coalesce(lowered, floors), paused_queues, paused_kinds) f;
        places := places || one.places;
        turns := one.seen;
        writes_turns := one.writes_floors;
    end if;
    if jobs.is_used('jobs.held_rate') then
        select f.places, more or f.goes_on, f.next_at into rated_places, more, earliest
        from jobs.free_in_rate(names, keys, nudged_places, nudged_times, paused_queues, paused_kinds, most_jobs) f;
    end if;
    -- Before permits are made: they get the new number.
    if not one_by_one and (writes_floors or writes_fair or writes_turns or lowered is not null or earliest < waits_from or earliest is not null and random() < 0.02) then
        -- It is not in the future, because later rows of jobs.rate are not earlier than now.
        waits_from := least(clock_timestamp(), earliest, (
            select r.next_at from jobs.rate r where r.next_at >= coalesce(waits_from, '-infinity') order by r.next_at limit 1
        ));
        -- Without earlier floors, the number follows those of all permits: somebody may have emptied the table.
        perform jobs.write_floors(
            coalesce(floor_number, (select max(s.number) from jobs.permit s), 0), array[seen, fair_seen, turns, coalesce(lowered, floors)], waits_from
        );
    end if;

    is_cut := cardinality(places) >= most_jobs;
    if jobs.is_used('jobs.held_several') then
        several_places := array(select h.ctid from jobs.held h where h.ctid = any(places || rated_places) and h.flags & 128 <> 0);
        places := array(select p from unnest(places) as p where p <> all(several_places));
        rated_places := array(select p from unnest(rated_places) as p where p <> all(several_places));
    end if;

    if one_by_one then
        select each.admitted, each.set_apart into one from jobs.admit_each(places, false, checks, until) each;
        admitted := one.admitted;
        set_apart := one.set_apart;
        select each.admitted, each.set_apart into one from jobs.admit_each(rated_places, true, checks, until) each;
        admitted := admitted + one.admitted;
        set_apart := set_apart + one.set_apart;
        more := more or admitted < cardinality(places) + cardinality(rated_places);
    else
        admitted := jobs.admit_held(places || rated_places, false);
    end if;

    -- After the others, whose permits it counts.
    if several_places is not null then
        several := jobs.admit_several(several_places, names, keys, paused_queues, paused_kinds, most_jobs, one_by_one, until);
        admitted := admitted + several.admitted;
        more := more or several.goes_on;
        set_apart := set_apart + several.set_apart;
    end if;

    if is_cut then
        insert into jobs.nudge (limit_name, limit_key, run_at) select key.name, key.value, null from unnest(names, keys) as key (name, value);
        more := true;
    end if;
    if checks then
        set constraints all immediate;
    end if;
end
$$;

-- Whether the role lacks a right on our own tables. That concerns all jobs, and the worker reports it. A right that a trigger lacks concerns one.
create function jobs.lacks_rights() returns boolean
language sql stable
as $$
    select exists (
        select from (values
            ('held', '{SELECT,INSERT,DELETE}'), ('permit', '{SELECT,INSERT,DELETE}'), ('nudge', '{SELECT,INSERT,DELETE}'), ('ready', '{SELECT,INSERT}'),
            ('rate', '{SELECT,INSERT,DELETE}'), ('fair_turn', '{SELECT,INSERT,DELETE}'), ('admission_floor', '{SELECT,INSERT,DELETE}'),
            ('admission', '{SELECT,INSERT,UPDATE}'), ('admission_failure', '{SELECT,INSERT,UPDATE,DELETE}'), ('limit_setting', '{SELECT}'),
            ('dead_letter', '{INSERT}'), ('running', '{SELECT}'), ('payload', '{SELECT,DELETE}')
        ) needed (name, privileges) cross join unnest(needed.privileges::text[]) privilege
        where not has_table_privilege('jobs.' || needed.name, privilege)
    ) or exists (
        select from unnest('{later,paused,run_at,limit_name,limit_key,most,flags}'::text[]) name where not has_column_privilege('jobs.held', name, 'UPDATE')
    ) or not has_column_privilege('jobs.permit', 'halted_at', 'UPDATE')
      or not has_column_privilege('jobs.worker', 'idle', 'SELECT') or not has_column_privilege('jobs.worker', 'queue_filter', 'SELECT')
$$;

-- A part of jobs.admit: handles these keys one by one, so that each can fail alone. A key at which it fails is left out for a while. It ends early
-- if it takes long, or if the server cancels it. Then the other keys are nudged, and the next pass continues.
--
-- Each job may wait for the same lock, because of a trigger. So it waits more briefly than the try for all keys did, and for a few jobs only.
create function jobs.admit_each_key(
    names text[], keys text[], paused_queues text[], paused_kinds text[], checks boolean, until timestamptz,
    out admitted bigint, out more boolean, out set_apart bigint
)
language plpgsql volatile set lock_timeout = '20ms'
as $$
declare
    is_late boolean := false;
    one record;
    state text;
    message text;
begin
    admitted := 0; more := false; set_apart := 0;
    for number in 1 .. cardinality(names) loop
        if is_late or number > 1 and clock_timestamp() > until then
            insert into jobs.nudge (limit_name, limit_key) select r.name, r.value from unnest(names[number:], keys[number:]) as r (name, value);
            more := true;
            return;
        end if;
        begin
            select k.admitted, k.more, k.set_apart into one from jobs.admit_keys(
                names[number:number], keys[number:number], names[number:number], keys[number:number], '{-32768}', '{-infinity}', paused_queues, paused_kinds, true, checks, until
            ) k;
            delete from jobs.admission_failure f where f.limit_name = names[number] and f.limit_key = keys[number] and f.job_id = 0;
            admitted := admitted + one.admitted;
            more := more or one.more;
            set_apart := set_apart + one.set_apart;
        exception when query_canceled or others then
            if sqlstate = '42501' and jobs.lacks_rights() then
                raise;
            end if;
            state := sqlstate;
            message := sqlerrm;
            is_late := state = '57014';
            perform jobs.note_failure(names[number], keys[number], 0, state, message);
        end;
    end loop;
end
$$;

-- A part of jobs.admit: what jobs.sweep does first, for each job alone. A pass calls it if jobs.sweep has failed. Jobs that have not failed before
-- come first. After the time `until`, it leaves the others to the next pass. Returns whether it has left any.
create function jobs.sweep_each(paused_queues text[], paused_kinds text[], until timestamptz) returns boolean
language plpgsql volatile set lock_timeout = '20ms'
as $$
declare
    most_jobs constant integer := 500;
    moment constant timestamptz := clock_timestamp();
    tried bigint := 0;
    job record;
    state text;
    message text;
begin
    for job in
        select h.ctid as place, h.id, h.limit_name, h.limit_key, h.priority, h.run_at::timestamptz as run_at from jobs.held h
        where h.ctid = any(array(
            select d.ctid from jobs.held d where d.later and d.run_at <= moment and not exists (
                select from jobs.admission_failure f where f.limit_name = d.limit_name and f.limit_key = d.limit_key and f.job_id = d.id and f.next_at > moment offset 0
            ) order by d.run_at, d.id limit most_jobs for no key update skip locked
        ) || array(
            select p.ctid from jobs.held p
            where p.paused and p.queue <> all(paused_queues) and p.kind <> all(paused_kinds) and not exists (
                select from jobs.admission_failure f where f.limit_name = p.limit_name and f.limit_key = p.limit_key and f.job_id = p.id and f.next_at > moment offset 0
            ) limit most_jobs for no key update skip locked
        ))
        order by exists (
            select from jobs.admission_failure f where f.limit_name = h.limit_name and f.limit_key = h.limit_key and f.job_id = h.id offset 0
        ), h.run_at, h.id
    loop
        if tried > 0 and clock_timestamp() > until then
            return true;
        end if;
        tried := tried + 1;
        begin
            update jobs.held set later = false, paused = false where ctid = job.place;
            insert into jobs.nudge (limit_name, limit_key, place, run_at) values (job.limit_name, job.limit_key, ~job.priority, job.run_at);
        exception when others then
            state := sqlstate;
            message := sqlerrm;
            perform jobs.note_failure(job.limit_name, job.limit_key, job.id, state, message);
        end;
    end loop;
    return false;
end
$$;

-- A pass of admission: moves held jobs to jobs.ready when their limits allow it. `sweeps`: it also searches for keys without a nudge. These are the
-- keys whose jobs have become due or were resumed, and, in case a nudge was lost, the next thousand keys. `careful`: the last pass of this worker has
-- failed as a whole, so this one handles the keys one by one.
-- `more`: the next pass should follow at once. `sweep_again`: the next pass should sweep, too. `set_apart`: how many jobs the database has refused.
-- `failures`: how many keys and jobs are left out for a while, see jobs.admission_failure. Null if it does not sweep.
-- `holds`: whether any job is held. Null if it does not sweep.
-- `next_token`: in how many seconds admission must look at a key again, because a token comes for which a job waits.
--
-- First it becomes the only session that admits, and only then, in later statements, it reads nudges and counts permits. In one
-- statement the snapshot would be older than the lock, and too many jobs would be admitted. So each statement must have a snapshot
-- of its own, which only READ COMMITTED gives.
--
-- Usually it handles all keys with the same statements. If one of these fails, they are undone, and each key is handled alone.
--
-- The settings are those of a claim. The statistics are often wrong: they show a table as empty or as full when it is not. Then the planner would
-- read whole tables in each pass, for example all held jobs, to find that none of them is in a sequence. Admission waits for no lock of ours. If
-- another session has locked one of its rows, or a row for which a trigger of the application waits, a long wait would stop all limits. So the key of
-- that row, or the job, is left out for a while.
create function jobs.admit(
    sweeps boolean, careful boolean default false, out is_busy boolean, out admitted bigint, out more boolean, out sweep_again boolean, out holds boolean,
    out set_apart bigint, out failures bigint, out next_token double precision
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '200ms'
as $$
declare
    most_nudges constant integer := 1000;
    most_apart constant integer := 100;
    -- How long jobs that are handled one by one may take.
    longest constant interval := interval '200 ms';
    moment constant timestamptz := clock_timestamp();
    names text[];
    keys text[];
    nudged_names text[];
    nudged_keys text[];
    nudged_places smallint[];
    nudged_times timestamptz[];
    nudges bigint;
    others bigint;
    apart_names text[] := '{}';
    apart_keys text[] := '{}';
    paused_queues text[];
    paused_kinds text[];
    is_apart boolean := careful and not jobs.lacks_rights();
    one record;
    state text;
    message text;
begin
    is_busy := false; admitted := 0; more := false; sweep_again := false; set_apart := 0;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'jobs.admit: it works only in READ COMMITTED' using errcode = '25001';
    end if;
    -- Most passes of most databases find nothing. They lock and write nothing. Only a sweep looks for any held job: there may be many entries
    -- of admitted ones.
    holds := case when sweeps then exists (select from jobs.held) end;
    -- Nothing starts, so no worker has to look at a key when its token comes.
    if exists (select from jobs.installation where frozen_at is not null) then
        return;
    end if;
    next_token := jobs.next_token(sweeps);
    failures := case when sweeps then 0 end;
    if not (sweeps and (holds or exists (select from jobs.rate) or exists (select from jobs.fair_turn) or exists (select from jobs.admission_failure)))
       and not exists (select from jobs.nudge) and coalesce(next_token > 0, true) then
        return;
    end if;
    -- In a new session, the server plans all these statements, which takes ten times as long as the pass. If workers are killed and start again
    -- all the time, most passes are in new sessions. So it plans before it has the lock. With no keys, the statements read and lock no row.
    if current_setting('jobs.has_planned', true) is distinct from 'on' then
        begin
            perform jobs.sweep('{}', '{}', 0);
            perform jobs.admit_keys('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', false, false, moment);
        exception when others then
            -- The pass deals with it.
        end;
        perform set_config('jobs.has_planned', 'on', false);
    end if;
    perform from jobs.admission for no key update skip locked;
    if not found and not exists (select from jobs.admission) then
        insert into jobs.admission default values on conflict do nothing;
        perform from jobs.admission for no key update skip locked;
    end if;
    if not found then
        is_busy := true;
        return;
    end if;
    -- If a crash of the server loses the commit, the jobs are held again. A later commit that waits for the disk keeps this one, too.
    perform set_config('synchronous_commit', 'off', true);
    paused_queues := array(select q.name from jobs.queue q where q.paused);
    paused_kinds := array(select k.name from jobs.kind k where k.paused);

    if sweeps then
        begin
            sweep_again := jobs.sweep(paused_queues, paused_kinds);
            if careful then
                set constraints all immediate;
            end if;
            -- A job that has become due and does not fail again may still wait for its limit.
            delete from jobs.admission_failure f
            where f.job_id <> 0 and (f.next_at < moment - interval '10 minutes' or not (
                exists (select from jobs.held h where h.id = f.job_id offset 0)
                or f.limit_key = '' and exists (select from jobs.ready r where r.id = f.job_id offset 0)
                or f.limit_key = '' and exists (select from jobs.running r where r.id = f.job_id offset 0)
            ));
        exception when others then
            if sqlstate = '42501' and jobs.lacks_rights() then
                raise;
            end if;
            state := sqlstate;
            message := sqlerrm;
            perform jobs.note_failure('', '', -1, state, message);
            sweep_again := jobs.sweep_each(paused_queues, paused_kinds, clock_timestamp() + longest);
        end;
        more := sweep_again;
        failures := (
            select count(*) from jobs.admission_failure f
            where f.job_id <= 0 or f.limit_key <> '' and exists (select from jobs.held h where h.id = f.job_id and h.later offset 0)
        );
    end if;

    -- What is nudged is committed, so the next statement sees it.
    with gone as (
        delete from jobs.nudge where ctid = any(array(select n.ctid from jobs.nudge n limit most_nudges))
        returning nudge.limit_name, nudge.limit_key, nudge.place, nudge.run_at
    )
    select array_agg(k.limit_name), array_agg(k.limit_key), array_agg(k.place), array_agg(k.run_at), (select count(*) from gone)
    into nudged_names, nudged_keys, nudged_places, nudged_times, nudges from (
        select n.limit_name, n.limit_key, min(n.place) filter (where n.run_at is not null) as place, min(n.run_at) as run_at from (
            select g.limit_name, g.limit_key, g.place, g.run_at from gone g
            union all
            (select r.limit_name, r.limit_key, null, null from jobs.rate r
             where r.next_at <= moment
               and r.next_at >= coalesce((select f.next_at from jobs.admission_floor f where not sweeps order by f.number desc limit 1), '-infinity')
             order by r.next_at limit most_nudges)
        ) n
        group by n.limit_name, n.limit_key
    ) k;
    names := coalesce(nudged_names, '{}');
    keys := coalesce(nudged_keys, '{}');
    if exists (select from jobs.admission_failure f where f.job_id >= 0) then
        -- The failure of a key is its nudge, so its nudges may go. A key of whose jobs one has failed is handled alone, because the job may fail again.
        -- There may be time for a few such keys only, so each has its chance to come first.
        select array_agg(k.name order by k.comes), array_agg(k.value order by k.comes), array_agg(k.place order by k.comes), array_agg(k.run_at order by k.comes),
               coalesce(array_agg(k.name order by k.comes) filter (where k.failed > 0), '{}'), coalesce(array_agg(k.value order by k.comes) filter (where k.failed > 0), '{}'),
               count(*) filter (where k.failed is null)
        into nudged_names, nudged_keys, nudged_places, nudged_times, apart_names, apart_keys, others from (
            select n.*, f.job_id as failed, row_number() over (order by f.job_id is not null, random()) as comes
            from unnest(nudged_names, nudged_keys, nudged_places, nudged_times) as n (name, value, place, run_at) left join lateral (
                select a.job_id from jobs.admission_failure a
                where a.limit_name = n.name and a.limit_key = n.value and a.job_id >= 0 order by a.job_id limit 1
            ) f on true
        ) k;
        names := coalesce(nudged_names[:others], '{}');
        keys := coalesce(nudged_keys[:others], '{}');
        select coalesce(array_agg(f.limit_name), '{}') || apart_names, coalesce(array_agg(f.limit_key), '{}') || apart_keys into apart_names, apart_keys from (
            select * from jobs.admission_failure a where a.job_id = 0 and a.next_at <= moment order by a.next_at limit most_apart
        ) f;
    end if;
    more := more or nudges >= most_nudges;

    if nudged_names is not null and not is_apart then
        begin
            select k.admitted, k.more, k.set_apart into one from jobs.admit_keys(
                names, keys, nudged_names, nudged_keys, nudged_places, nudged_times, paused_queues, paused_kinds, false, false, 'infinity'
            ) k;
            admitted := one.admitted;
            more := more or one.more;
            names := '{}'; keys := '{}';
        exception when others then
            if sqlstate = '42501' and jobs.lacks_rights() then
                raise;
            end if;
            is_apart := true;
        end;
    end if;
    if nudged_names is not null and is_apart then
        -- These nudges lower no floor.
        delete from jobs.admission_floor;
    end if;
    -- A key that may fail again comes last.
    if names || apart_names <> '{}' then
        select k.admitted, k.more, k.set_apart into one
        from jobs.admit_each_key(names || apart_names, keys || apart_keys, paused_queues, paused_kinds, careful, clock_timestamp() + longest) k;
        admitted := admitted + one.admitted;
        more := more or one.more;
        set_apart := set_apart + one.set_apart;
    end if;
    next_token := jobs.next_token(sweeps);
end
$$;

-- The search for keys and expired jobs that no nudge names.

-- A part of a sweep: deletes the turns of keys that have neither jobs with tenants nor permits. The next job begins again.
create function jobs.sweep_turns() returns void
language plpgsql volatile
as $$
declare
    most_turns constant integer := 500;
    next_name text;
    next_key text;
begin
    if not exists (select from jobs.fair_turn) then
        return;
    end if;
    with seen as materialized (
        select t.ctid, t.limit_name, t.limit_key from jobs.fair_turn t
        where (t.limit_name, t.limit_key) > (select a.after_turn, a.after_turn_key from jobs.admission a)
        order by t.limit_name, t.limit_key limit most_turns
    ), gone as (
        delete from jobs.fair_turn where ctid = any(array(
            select s.ctid from seen s
            where not exists (select from jobs.permit where permit.limit_name = s.limit_name and permit.limit_key = s.limit_key offset 0)
              and not exists (
                  select from jobs.held h where not h.later and not h.paused and h.flags & 256 <> 0
                    and h.limit_name = s.limit_name and h.limit_key = s.limit_key offset 0
              )
        ))
    )
    select s.limit_name, s.limit_key into next_name, next_key from seen s order by s.limit_name, s.limit_key offset most_turns - 1;
    update jobs.admission set after_turn = coalesce(next_name, ''), after_turn_key = coalesce(next_key, '');
end
$$;

-- A part of jobs.admit: what a sweep does in addition. It nudges keys that have no nudge although a job of them may start. Returns whether
-- the next pass should sweep at once. With 0 as `most_keys` it finds nothing and locks no row.
create function jobs.sweep(paused_queues text[], paused_kinds text[], most_keys integer default 1000) returns boolean
language plpgsql volatile
as $$
declare
    most_jobs constant integer := 5 * most_keys;
    most_permits constant integer := most_keys / 2;
    moment constant timestamptz := clock_timestamp();
    place jobs.admission;
    more boolean;
    next_name text;
    next_key text;
    next_sequence text;
    next_sequence_key text;
    next_rate text;
    next_rate_key text;
    next_permit bigint;
    found_keys bigint;
begin
    select * into place from jobs.admission;

    -- Jobs that have become due.
    with due as (
        update jobs.held set later = false where ctid = any(array(
            select h.ctid from jobs.held h where h.later and h.run_at <= moment order by h.run_at, h.id limit most_jobs for no key update skip locked
        ))
        returning limit_name, limit_key, ~priority as place, run_at
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, place, run_at)
        select d.limit_name, d.limit_key, min(d.place), min(d.run_at::timestamptz) from due d group by d.limit_name, d.limit_key
    )
    select count(*) = most_jobs into more from due;

    -- Jobs whose queue and kind were paused, and are not paused any more.
    if exists (select from jobs.held where paused) then
        with recursive apart (queue, kind) as (
            (select h.queue, h.kind from jobs.held h where h.paused order by h.queue, h.kind limit 1)
            union all
            select next.queue, next.kind from apart cross join lateral (
                select h.queue, h.kind from jobs.held h where h.paused and (h.queue, h.kind) > (apart.queue, apart.kind)
                order by h.queue, h.kind limit 1
            ) next
        ), resumed as (
            update jobs.held set paused = false where ctid = any(array(
                select pick.ctid from apart cross join lateral (
                    select h.ctid from jobs.held h where h.paused and h.queue = apart.queue and h.kind = apart.kind
                    limit most_jobs for no key update skip locked
                ) pick
                where apart.queue <> all(paused_queues) and apart.kind <> all(paused_kinds)
                limit most_jobs
            ))
            returning limit_name, limit_key, ~priority as place, run_at
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key, place, run_at)
            select r.limit_name, r.limit_key, min(r.place), min(r.run_at::timestamptz) from resumed r group by r.limit_name, r.limit_key
        )
        select more or count(*) = most_jobs into more from resumed;
    end if;

    -- The next keys with a free permit and a job for it.
    with recursive key (name, value, number) as (
        (select h.limit_name, h.limit_key, 1 from jobs.held h
         where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (place.after_name, place.after_key)
         order by h.limit_name, h.limit_key limit least(most_keys, 1))
        union all
        select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
            select h.limit_name, h.limit_key from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
            order by h.limit_name, h.limit_key limit 1
        ) next
        where key.number < most_keys
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, place, run_at)
        select key.name, key.value, head.place, head.run_at from key cross join lateral (
            select h.most, ~h.priority as place, h.run_at from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
            order by ~h.priority, h.run_at, h.id limit 1
        ) head
        where (select count(*) from jobs.permit s where s.limit_name = key.name and s.limit_key = key.value) < jobs.allowed(key.name, head.most)
          and (key.name <> '' or not jobs.waits_at_limit(key.value))
        returning true
    ), last as (
        select key.name, key.value from key where key.number = most_keys
    )
    select (select l.name from last l), (select l.value from last l), count(*) into next_name, next_key, found_keys from nudged;
    more := more or next_name is not null and found_keys > 0;

    -- The same for the next sequences.
    if exists (select from jobs.held where flags & 4 <> 0) then
        with recursive key (name, value, number) as (
            (select h.limit_name, h.limit_key, 1 from jobs.held h
             where h.flags & 4 <> 0 and (h.limit_name, h.limit_key) > (place.after_sequence, place.after_sequence_key)
             order by h.limit_name, h.limit_key limit least(most_keys, 1))
            union all
            select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
                select h.limit_name, h.limit_key from jobs.held h
                where h.flags & 4 <> 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
                order by h.limit_name, h.limit_key limit 1
            ) next
            where key.number < most_keys
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key)
            select key.name, key.value from key cross join lateral jobs.next_in_sequence(key.name, key.value) next
            where exists (select from jobs.held h where h.id = next.id and not h.later and not h.paused)
            returning true
        ), last as (
            select key.name, key.value from key where key.number = most_keys
        )
        select (select l.name from last l), (select l.value from last l), count(*) into next_sequence, next_sequence_key, found_keys from nudged;
        more := more or next_sequence is not null and found_keys > 0;
    end if;

    -- The same for the next keys with a rate. Those that wait for a token have a time at which a pass looks at them, but not below their floor.
    if exists (select from jobs.held where not later and not paused and flags & 8 <> 0) then
        with recursive key (name, value, number) as (
            (select h.limit_name, h.limit_key, 1 from jobs.held h
             where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (place.after_rate, place.after_rate_key)
             order by h.limit_name, h.limit_key limit least(most_keys, 1))
            union all
            select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
                select h.limit_name, h.limit_key from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
                order by h.limit_name, h.limit_key limit 1
            ) next
            where key.number < most_keys
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key, place, run_at)
            select key.name, key.value, head.place, head.run_at from key cross join lateral (
                select ~h.priority as place, h.run_at, h.id from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
                order by ~h.priority, h.run_at, h.id limit 1
            ) head
            where not exists (
                select from jobs.rate r where r.limit_name = key.name and r.limit_key = key.value and r.next_at is not null
                  and (r.place, r.run_at, r.id) <= (head.place, head.run_at, head.id)
            )
            returning true
        ), last as (
            select key.name, key.value from key where key.number = most_keys
        )
        select (select l.name from last l), (select l.value from last l), count(*) into next_rate, next_rate_key, found_keys from nudged;
        more := more or next_rate is not null and found_keys > 0;
    end if;

    -- Keys that have all their tokens have no row.
    delete from jobs.rate where ctid = any(array(
        select r.ctid from jobs.rate r where r.next_at is null and r.full_at <= moment order by r.full_at limit most_jobs
    ));

    if most_keys > 0 then
        perform jobs.sweep_turns();
    end if;

    -- Permits without a job. A person has deleted the job, without the permit.
    with seen as materialized (
        select s.job_id, s.limit_name, s.limit_key from jobs.permit s where s.job_id > place.after_permit order by s.job_id limit most_permits
    ), gone as (
        -- An array, because a join may look for each job once for each permit.
        delete from jobs.permit s where s.halted_at is null and s.job_id = any(array(
            select seen.job_id from seen
            where not exists (select from jobs.ready where id = seen.job_id offset 0)
              and not exists (select from jobs.running where id = seen.job_id offset 0)
              and not exists (select from jobs.held where id = seen.job_id offset 0)
        ))
        returning s.limit_name, s.limit_key
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, run_at) select distinct g.limit_name, g.limit_key, null::timestamptz from gone g
    )
    select case count(*) when most_permits then max(seen.job_id) else 0 end into next_permit from seen;

    update jobs.admission set after_name = coalesce(next_name, ''), after_key = coalesce(next_key, ''), after_permit = next_permit,
        after_sequence = coalesce(next_sequence, ''), after_sequence_key = coalesce(next_sequence_key, ''),
        after_rate = coalesce(next_rate, ''), after_rate_key = coalesce(next_rate_key, '')
    where most_keys > 0;
    return more;
end
$$;

-- Jobs that do not wait for a full limit.

-- Whether jobs are held that do not wait if their limit is full. A worker calls it after each pass. It is volatile, so that it sees what the pass
-- has done in the same statement.
create function jobs.may_be_full() returns boolean
language plpgsql volatile set jit = off
as $$
begin
    return exists (select from jobs.held h where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused)
       and not exists (select from jobs.installation where frozen_at is not null);
end
$$;

-- The jobs that end because their limit is full: `on_full` says how. It reads everything in one snapshot, and needs no lock of admission. It skips the
-- first jobs of each key, as many as there are free permits or tokens: admission starts them. A job that it returns may have started meanwhile. Jobs
-- that the database has refused to end are left out for a while.
--
-- `discard`: the due jobs behind them. `cancel_oldest`: the oldest jobs of the key, waiting or started, until as many are left as the limit allows.
-- It cancels only jobs that have this rule themselves. Jobs of another kind that shares the limit are not cancelled, and their permits do not count as
-- free. At least one job always remains, even if it must wait.
create function jobs.full_jobs(most_jobs integer) returns table (job_id bigint, name text, rule text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    most_keys constant integer := 1000;
    moment constant timestamptz := clock_timestamp();
    paused_queues constant text[] := array(select q.name from jobs.queue q where q.paused);
    paused_kinds constant text[] := array(select k.name from jobs.kind k where k.paused);
begin
    if exists (select from jobs.installation i where i.frozen_at is not null) then
        return;
    end if;
    return query
    with recursive key (name, value, rated, number) as (
        (select h.limit_name, h.limit_key, h.flags & 8, 1 from jobs.held h
         where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused
         order by h.limit_name, h.limit_key, h.flags & 8 limit 1)
        union all
        select next.limit_name, next.limit_key, next.rated, key.number + 1 from key cross join lateral (
            select h.limit_name, h.limit_key, h.flags & 8 as rated from jobs.held h
            where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused
              and (h.limit_name, h.limit_key, h.flags & 8) > (key.name, key.value, key.rated)
            order by h.limit_name, h.limit_key, h.flags & 8 limit 1
        ) next
        where key.number < most_keys
    ), free as materialized (
        -- The first job decides, as in a pass.
        select key.name, key.value, key.rated, case when key.rated <> 0 then jobs.tokens(
                   case when first.flags & 128 = 0 then first.rules -> 0 else jobs.rule_of(first.rules, key.name) end, moment
               ) else jobs.allowed(key.name, first.most) - (
                   select count(*) from jobs.permit s where s.limit_name = key.name and s.limit_key = key.value
               ) end as number
        from key cross join lateral (
            (select h.flags, h.rules, h.most from jobs.held h
             where key.rated = 0 and not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id limit 1)
            union all
            (select h.flags, h.rules, h.most from jobs.held h
             where key.rated <> 0 and not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id limit 1)
        ) first
        where not exists (
            select from jobs.admission_failure f where f.limit_name = key.name and f.limit_key = key.value and f.job_id = 0 offset 0
        )
    ), behind as materialized (
        -- The first job that cannot start.
        select free.*, first.place, first.run_at, first.id from free cross join lateral (
            (select ~h.priority as place, h.run_at::timestamptz as run_at, h.id from jobs.held h
             where free.rated = 0 and not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = free.name and h.limit_key = free.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id offset greatest(free.number, 0) limit 1)
            union all
            (select ~h.priority, h.run_at::timestamptz, h.id from jobs.held h
             where free.rated <> 0 and not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = free.name and h.limit_key = free.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id offset greatest(free.number, 0) limit 1)
        ) first
    ), full_job as materialized (
        select behind.name, behind.value, behind.number, job.id, job.rule from behind cross join lateral (
            select h.id, coalesce(h.rules #>> '{0,rule,concurrency,on_full}', h.rules #>> '{0,rule,rate,on_full}') as rule from jobs.held h
            where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused
              and h.limit_name = behind.name and h.limit_key = behind.value and h.flags & 8 = behind.rated
              and (~h.priority, h.run_at, h.id) >= (behind.place, behind.run_at, behind.id)
              and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
              and not exists (
                  select from jobs.admission_failure f where f.limit_name = '' and f.limit_key = '' and f.job_id = h.id and f.next_at > moment offset 0
              )
            order by ~h.priority, h.run_at, h.id limit most_jobs
        ) job
    ), started as materialized (
        -- The started jobs of the keys in which a job is to cancel the oldest.
        select key.name, key.value, job.id from (
            select distinct f.name, f.value from full_job f where f.rule = 'cancel_oldest'
        ) key
        cross join lateral (
            select s.job_id from jobs.permit s where s.limit_name = key.name and s.limit_key = key.value
        ) permit
        cross join lateral (
            (select r.id from jobs.ready r where r.id = permit.job_id and r.flags & 64 <> 0 and r.rules #>> '{0,rule,concurrency,on_full}' = 'cancel_oldest' offset 0)
            union all
            (select r.id from jobs.running r where r.id = permit.job_id and r.flags & 64 <> 0 and r.rules #>> '{0,rule,concurrency,on_full}' = 'cancel_oldest' offset 0)
        ) job
    ), oldest as (
        select key.name, job.id from (
            select f.name, f.value, min(f.number) as number from full_job f where f.rule = 'cancel_oldest' group by f.name, f.value
        ) key
        cross join lateral (
            select each.id, row_number() over (order by each.id desc) as place from (
                select s.id from started s where s.name = key.name and s.value = key.value
                union all
                select h.id from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
                  and h.flags & 64 <> 0 and h.rules #>> '{0,rule,concurrency,on_full}' = 'cancel_oldest' and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            ) each
        ) job
        where job.place > greatest(1, key.number + (select count(*) from started s where s.name = key.name and s.value = key.value))
          and not exists (
              select from jobs.admission_failure f where f.limit_name = '' and f.limit_key = '' and f.job_id = job.id and f.next_at > moment offset 0
          )
        order by job.id
    )
    (select f.id, f.name, f.rule from full_job f where f.rule = 'discard' limit most_jobs)
    union all
    (select o.id, o.name, 'cancel_oldest' from oldest o limit most_jobs);
end
$$;

-- What happens to jobs that exist: operators and applications cancel, retry and reschedule them.

-- Gives back what these jobs have of their rules, and nudges the keys: one element of each array for each job. `wait_again`: the jobs wait for
-- their rules again, and a sequence keeps its turn. Otherwise they have ended, and were not discarded. FreePermits in Rust says more.
create function jobs.free_permits(ids bigint[], flags integer[], rules json[], wait_again boolean) returns void
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    with job as (
        select j.id, j.flags, j.rules, not wait_again or j.rules #> '{0,rule,sequence}' is null as gives_turn
        from unnest(free_permits.ids, free_permits.flags, free_permits.rules) j (id, flags, rules) where j.rules is not null
    ), freed as (
        delete from jobs.permit where job_id = any(array(select id from job where gives_turn))
    ), freed_beside_turn as (
        delete from jobs.permit where ctid = any(array(
            select permit.ctid from job cross join lateral jobs.beside_sequence(job.rules) r cross join lateral (
                select s.ctid from jobs.permit s where s.job_id = job.id and s.limit_name = r ->> 'name' offset 0
            ) permit
            where job.flags & 128 <> 0 and not job.gives_turn
        ))
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, run_at)
        select distinct p.limit_name, p.limit_key, case when wait_again then '-infinity'::timestamptz end from job cross join lateral jobs.place(job.rules) p
        where job.flags & 136 <> 8 or wait_again
    )
    insert into jobs.nudge (limit_name, limit_key)
    select distinct key.name, key.value from job cross join lateral (
        select r ->> 'name', r ->> 'key' from jobs.beside_sequence(job.rules) r where r #> '{rule,rate}' is null
        union all select '', jobs.lane(job.rules) where job.rules #> '{0,rule,sequence}' is not null
    ) key (name, value)
    where job.flags & 128 <> 0;
end
$$;

-- Cancels these jobs, waiting or running. The lease of a running attempt is then lost. Waiting jobs that another session has locked, and jobs with a
-- feature of a later version, are passed over. It waits for running jobs that are locked, in the order of `ids`, which is ascending, and before it locks
-- a waiting one: so it does not wait for a session that waits for it. If a `flag` is given, it waits for none, only jobs with this flag are cancelled,
-- and with 32 (the job expires) only before their first attempt. `fingerprint`: by default that of jobs that somebody has cancelled. `keep`: for how
-- many seconds the ended jobs are kept, unless operators have set another time.
create function jobs.cancel_jobs(
    ids bigint[], reason text, actor text, fingerprint bigint default 5113229851155308, keep float8 default 2592000, flag integer default 0
) returns table (id bigint, kind text, queue text)
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    ended_ids bigint[];
    ended_flags integer[];
    ended_rules json[];
    kinds text[];
    queues text[];
begin
    with waiting as (
        delete from jobs.ready where ctid = any(array(
            select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.ready r where r.id = wanted.id and r.flags & ~511 = 0
                   and r.flags & flag = flag and (flag <> 32 or r.attempt = 0) for update skip locked
            ) found
        ))
        returning id, run_at, lease, attempt, max_attempts, crashes, null::timestamptz as claimed_at, null::uuid as worker,
                  enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), held as (
        delete from jobs.held where ctid = any(array(
            select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select h.ctid from jobs.held h where h.id = wanted.id and h.flags & ~511 = 0
                   and h.flags & flag = flag and (flag <> 32 or h.attempt = 0) for update skip locked
            ) found
        ))
        returning id, run_at, lease, attempt, max_attempts, crashes, null::timestamptz as claimed_at, null::uuid as worker,
                  enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), running as (
        delete from jobs.running where ctid = any(array(
            select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.running r where r.id = wanted.id and r.flags & ~511 = 0 and flag = 0 for update
            ) found
            union all select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.running r
                where r.id = wanted.id and r.flags & ~511 = 0 and r.flags & flag <> 0 and flag <> 32 for update skip locked
            ) found
        ))
        returning id, run_at, lease, attempt, max_attempts, crashes, claimed_at, worker,
                  enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), ended as (
        insert into jobs.finished (id, run_at, lease, attempt, max_attempts, crashes, claimed_at, worker,
                                   enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules, state, expires_at)
        select job.*, 2, nullif(coalesce((
            select case when r.keep is null then 'infinity' else now() + r.keep end from jobs.retention r
            where r.state = 2 and r.kind in (job.kind, '') order by r.kind desc limit 1
        ), now() + make_interval(secs => cancel_jobs.keep)), 'infinity')
        from (select * from running union all select * from waiting union all select * from held) job
        returning id, attempt, claimed_at, worker, flags, rules, kind, queue
    ), recorded as (
        insert into jobs.job_error (job_id, attempt, started_at, worker, kind, message, fingerprint, actor)
        select id, attempt, claimed_at, worker, 'cancelled', cancel_jobs.reason, cancel_jobs.fingerprint, cancel_jobs.actor from ended
    )
    select array_agg(e.id), array_agg(e.flags), array_agg(e.rules), array_agg(e.kind), array_agg(e.queue)
    into ended_ids, ended_flags, ended_rules, kinds, queues from ended e;
    if exists (select from unnest(ended_flags) f where f & 1 <> 0) then
        perform jobs.free_permits(ended_ids, ended_flags, ended_rules, false);
        perform jobs.wake_admission();
    end if;
    -- An enqueue that has locked a key gives it to its own job.
    delete from jobs.unique_key where ctid = any(array(
        select k.ctid from unnest(ended_ids, ended_flags) e (id, flags) join jobs.unique_key k on k.job_id = e.id where e.flags & 16 <> 0 for update of k skip locked
    ));
    return query select * from unnest(ended_ids, kinds, queues);
end
$$;

-- Makes cancelled, discarded and waiting jobs available now, with at least one attempt left. Their crashes become 0, because somebody has examined them.
-- An ended job does not expire any more. The lease number becomes at least 1, because the jobs may have failures. A job with rules waits for them
-- again; in a sequence it keeps its turn. Waiting jobs that another session has locked, and jobs with a feature of a later version, are passed over. It
-- waits for ended jobs that are locked, as jobs.cancel_jobs does for running ones.
create function jobs.retry_jobs(ids bigint[]) returns setof bigint
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    retried_ids bigint[];
    held_ids bigint[];
    held_flags integer[];
    held_rules json[];
    queues text[];
begin
    with ended as (
        delete from jobs.finished where ctid = any(array(
            select found.ctid from unnest(retry_jobs.ids) as wanted(id) cross join lateral (
                select f.ctid from jobs.finished f where f.id = wanted.id and f.state in (2, 3) and f.flags & ~511 = 0 for update
            ) found
        ))
        returning id, lease, attempt, max_attempts, enqueued_at, flags & ~32 as flags, priority, kind, queue, tags, args, traceparent, rules
    ), waiting as (
        delete from jobs.ready where ctid = any(array(
            select found.ctid from unnest(retry_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.ready r where r.id = wanted.id and r.flags & ~511 = 0 for update skip locked
            ) found
        ))
        returning id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), held as (
        delete from jobs.held where ctid = any(array(
            select found.ctid from unnest(retry_jobs.ids) as wanted(id) cross join lateral (
                select h.ctid from jobs.held h where h.id = wanted.id and h.flags & ~511 = 0 for update skip locked
            ) found
        ))
        returning id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), again as (
        select id, greatest(lease, 1) as lease, least(attempt, 32766) as attempt, greatest(max_attempts, least(attempt + 1, 32767)) as max_attempts,
               enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules, is_free
        from (select *, rules is null as is_free from ended union all select *, true from waiting union all select *, false from held) job
    ), available as (
        insert into jobs.ready (id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules)
        select id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules from again where is_free
    ), held_again as (
        insert into jobs.held (id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules,
                               later, limit_name, limit_key, most)
        select id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules,
               false, p.limit_name, p.limit_key, p.most
        from again cross join lateral jobs.place(again.rules) p where not is_free
    )
    select array_agg(a.id), array_agg(a.id) filter (where not a.is_free), array_agg(a.flags) filter (where not a.is_free),
           array_agg(a.rules) filter (where not a.is_free), array_agg(distinct a.queue) filter (where a.is_free)
    into retried_ids, held_ids, held_flags, held_rules, queues from again a;
    if held_ids is not null then
        perform jobs.free_permits(held_ids, held_flags, held_rules, true);
        perform jobs.wake_admission();
    end if;
    perform jobs.wake(q) from unnest(queues) q;
    return query select unnest(retried_ids);
end
$$;

-- Locks those of these jobs to which the action applies, and returns them. It waits for sessions that change them, and finds a job that has moved to
-- another table meanwhile. It locks one job after the other, in the order of the ids. So two callers that lock the same jobs do not wait for each other,
-- also if one of them inserts rows again.
create function jobs.lock_each(ids bigint[], action text) returns bigint[]
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
declare
    one bigint;
    locked bigint[] := '{}';
begin
    for one in select distinct i from unnest(ids) i where i is not null order by i loop
        for tries in 1 .. 1000 loop
            -- First the table from which admission moves a job to the other one.
            perform from jobs.held h where h.id = one and h.flags & ~511 = 0 for update;
            if not found then
                perform from jobs.ready r where r.id = one and r.flags & ~511 = 0 for update;
            end if;
            if not found and action = 'cancel' then
                perform from jobs.running r where r.id = one and r.flags & ~511 = 0 for update;
            end if;
            if not found and action = 'retry' then
                perform from jobs.finished f where f.id = one and f.state in (2, 3) and f.flags & ~511 = 0 for update;
            end if;
            if found then
                locked := array_append(locked, one);
                exit;
            end if;
            -- One statement, so that a job that moves is seen in one of the tables.
            perform where exists (select from jobs.held h where h.id = one and h.flags & ~511 = 0)
                or exists (select from jobs.ready r where r.id = one and r.flags & ~511 = 0)
                or action = 'cancel' and exists (select from jobs.running r where r.id = one and r.flags & ~511 = 0)
                or action = 'retry' and exists (select from jobs.finished f where f.id = one and f.state in (2, 3) and f.flags & ~511 = 0);
            exit when not found;
            if tries = 1000 then
                raise exception 'jobs.%: job % changes too often', action, one using errcode = '40001';
            end if;
        end loop;
    end loop;
    return locked;
end
$$;

-- Cancels, retries or reschedules jobs in the caller's transaction, and writes it to the audit. Returns how many jobs were changed. The jobs are those
-- with these ids, with this tag, or the one that has this unique key. It waits for other sessions that change the same jobs. The waiting job of a key
-- that lasts until the job starts is changed only before its first attempt.
--
-- It has the rights of the owner: a role that only enqueues must not change jobs in any other way. So the audit names the role of the session.
create function jobs.act(action text, ids bigint[], tag text, key_name text, key text, run_at timestamptz) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
#variable_conflict use_variable
declare
    actor constant text := 'role ' || session_user;
    due constant timestamptz := greatest(run_at, clock_timestamp());
    chosen bigint[] := ids;
    done bigint[];
begin
    -- The role may call this function in any way, and the audit must not say what has not happened.
    if (action in ('cancel', 'retry', 'reschedule')) is not true or (action <> 'reschedule' or run_at <= now() + interval '100 years') is not true then
        raise exception 'jobs.act: there is no action % at %', action, run_at using errcode = '22023';
    end if;
    if tag is not null then
        chosen := array(
            select h.id from jobs.held h where h.tags @> array[tag]
            union all select r.id from jobs.ready r where r.tags @> array[tag]
            union all select r.id from jobs.running r where action = 'cancel' and r.tags @> array[tag]
            union all select f.id from jobs.finished f where action = 'retry' and f.state in (2, 3) and f.tags @> array[tag]
        );
    elsif key_name is not null then
        chosen := array(
            select k.job_id from jobs.unique_key k
            where k.name = key_name and k.key = act.key and (k.until is null or k.until > clock_timestamp())
              and (not k.started or exists (select from jobs.held h where h.id = k.job_id and h.attempt = 0)
                                 or exists (select from jobs.ready r where r.id = k.job_id and r.attempt = 0))
        );
    end if;
    chosen := jobs.lock_each(chosen, action);
    if action = 'cancel' then
        done := array(select c.id from jobs.cancel_jobs(chosen, 'cancelled by ' || actor, actor) c);
    elsif action = 'retry' then
        done := array(select jobs.retry_jobs(chosen));
    else
        done := array(
            select i from unnest(chosen) i
            where jobs.replace_waiting(row('', '', i, false, null)::jobs.unique_key, '{"run_at": true}', null, due, null)
        );
    end if;
    insert into jobs.audit (actor, action, target, detail)
    select actor, action, case count(*) when 1 then 'job ' || min(i) else count(*) || ' jobs' end,
           json_strip_nulls(json_build_object('ids', json_agg(i order by i), 'argument', case action when 'reschedule' then due end))
    from unnest(done) i having count(*) > 0;
    return cardinality(done);
end
$$;

revoke execute on function jobs.act(text, bigint[], text, text, text, timestamptz) from public;

-- A part of the three functions below: finds the jobs.
create function jobs.act_on(action text, id bigint, tag text, kind text, args json, unique_by text[], run_at timestamptz) returns integer
language plpgsql volatile
as $$
#variable_conflict use_variable
declare
    unique_rule json;
begin
    if num_nonnulls(id, tag, kind) <> 1 then
        raise exception 'jobs.%: give exactly one of `id`, `tag` and `kind`', action using errcode = '22023';
    end if;
    if num_nulls(kind, args, unique_by) not in (0, 3) then
        raise exception 'jobs.%: a job of a kind is found by its unique key: give `kind`, `args` and `unique_by`, as they were given at its enqueue', action
            using errcode = '22023';
    end if;
    if kind is not null then
        unique_rule := jobs.unique_rule(kind, args, unique_by, null, null, null, null, null);
    end if;
    return jobs.act(action, array[id], tag, unique_rule ->> 'name', unique_rule ->> 'key', run_at);
end
$$;

-- Cancels waiting and running jobs, in the caller's transaction. If a job runs, its handler is told, and what it returns is not stored. Give
-- one of `id`, `tag` and `kind`. With `kind`, it is the job that has the unique key; `args` and `unique_by` are those of its enqueue, and of the arguments
-- only those of the key are needed. Returns how many jobs were cancelled: 0 if there are none, or if they have ended.
create function jobs.cancel(id bigint default null, tag text default null, kind text default null, args json default null, unique_by text[] default null)
returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    return jobs.act_on('cancel', id, tag, kind, args, unique_by, null);
end
$$;

-- Makes cancelled, discarded and waiting jobs available now, with at least one attempt left. For the parameters see jobs.cancel. A job that has ended has no
-- unique key any more. Returns how many jobs were changed.
create function jobs.retry(id bigint default null, tag text default null, kind text default null, args json default null, unique_by text[] default null)
returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    return jobs.act_on('retry', id, tag, kind, args, unique_by, null);
end
$$;

-- Sets the time of waiting jobs. They start at `run_at` or later; a time that has passed is now. For the other parameters see jobs.cancel. Returns how many
-- jobs were changed: 0 if there are none, or if they run or have ended.
create function jobs.reschedule(
    id bigint default null, run_at timestamptz default null, tag text default null, kind text default null, args json default null,
    unique_by text[] default null
) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    -- This also refuses 'infinity', which clients cannot represent.
    if (run_at <= now() + interval '100 years') is not true then
        raise exception 'jobs.reschedule: `run_at` is a time of the next hundred years, and not %', coalesce(run_at::text, 'null') using errcode = '22023';
    end if;
    return jobs.act_on('reschedule', id, tag, kind, args, unique_by, run_at);
end
$$;

insert into jobs.schema_migration (version, name, oldest_program) values (1, 'jobs', 1);
