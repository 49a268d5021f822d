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
