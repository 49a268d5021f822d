-- Version 1 of the schema: the three tables that a job moves through, the tables that workers share, the view jobs.job,
-- and the function jobs.enqueue for SQL.
-- Locks: it only creates objects. It locks no table of the application.

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
    kind text not null,
    queue text not null default 'default',
    tags jobs.tags,
    args json
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

-- Finds one job by its id, also among a million waiting jobs. It costs a fifth more server time per row of a bulk
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
    kind text not null,
    queue text not null,
    tags text[],
    args json
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
    kind text not null,
    queue text not null,
    tags text[],
    args json
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
    primary key (job_id, id)
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- Returns 1024 bits. For each of these queues one bit is set. Two queues may have the same bit. Then an enqueue may
-- send a notification although no idle worker serves its queue.
create function jobs.queue_filter(queues text[]) returns bit(1024)
language sql immutable parallel safe
as $$
    select coalesce(bit_or(set_bit(repeat('0', 1024)::bit(1024), hashtext(queue) & 1023, 1)), repeat('0', 1024)::bit(1024))
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
    queue_filter bit(1024) not null generated always as (jobs.queue_filter(queues)) stored
) with (
    -- Few rows. Each is updated several times per second, and every enqueue reads them.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- Dead letters: rows that the database refused to move, for example because another row has the same id. They are moved
-- here so that the other jobs continue.
create table jobs.dead_letter (
    number bigint generated always as identity primary key,
    id bigint not null,
    kind text not null,
    queue text not null,
    reason text not null,
    at timestamptz not null default now(),
    -- The whole row, as JSON.
    job json not null
);

-- Settings of queues at run time. A queue without a row has the defaults.
create table jobs.queue (
    name text primary key,
    paused boolean not null default false
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
    name text primary key,
    kind text not null,
    expression text not null,
    timezone text not null,
    catch_up text not null check (catch_up in ('skip', 'last', 'all')),
    last_tick jobs.instant not null default now(),
    flags integer not null default 0,
    paused boolean not null default false
);

-- One row per job: the rows of all three tables. Later versions do not change these columns. They add columns at the
-- end.
create view jobs.job as
select id, kind, queue, state, priority, attempt::integer, max_attempts::integer, crashes::integer,
       run_at, enqueued_at, claimed_at, finished_at, worker, lease, coalesce(tags, '{}') as tags,
       -- 'null' if the arguments were deleted from jobs.payload. Clients expect a value here, and could not read a row
       -- without one.
       coalesce(args, (select payload.args from jobs.payload where payload.job_id = job.id), 'null') as args,
       (select e.message from jobs.job_error e where e.job_id = job.id order by e.id desc limit 1) as last_error,
       flags
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

comment on view jobs.job is 'One row per job that waits, runs, or has ended and is still kept. Read only.';
comment on column jobs.job.id is 'The id that the enqueue returned. It is unique, and larger for jobs that were enqueued later.';
comment on column jobs.job.kind is 'The stored name of the type of job. It selects the handler.';
comment on column jobs.job.queue is 'The name of the queue.';
comment on column jobs.job.state is 'available: due now. scheduled: due later, never failed. retrying: due later, after a failed attempt. running: a worker has a lease for it. completed, cancelled, discarded: ended.';
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

-- Notifies the idle workers of this queue when the transaction commits. It sends no notification while no worker of the
-- queue is idle, because NOTIFY takes a lock that all committing transactions of the server share. It also sends none
-- if `jobs.notify` is `off`, because a transaction that has executed NOTIFY cannot be prepared for a two-phase commit.
create function jobs.wake(queue text) returns void
language sql volatile
as $$
    select pg_notify('jobs', wake.queue)
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(wake.queue) & 1023) = 1)
$$;

-- Enqueues a job from SQL, psql or a trigger. Returns its id.
create function jobs.enqueue(
    kind text,
    args json default '{}',
    queue text default 'default',
    priority integer default 0,
    run_at timestamptz default null,
    max_attempts integer default 25,
    tags text[] default null
) returns bigint
language plpgsql volatile
as $$
declare
    new_id bigint;
begin
    if coalesce(enqueue.kind, '') = '' or coalesce(enqueue.queue, '') = '' then
        raise exception 'jobs.enqueue: kind and queue must not be empty' using errcode = '22023';
    end if;
    if octet_length(enqueue.kind) > 200 or octet_length(enqueue.queue) > 200 then
        raise exception 'jobs.enqueue: kind and queue must not be longer than 200 bytes' using errcode = '22023';
    end if;
    if enqueue.max_attempts not between 1 and 32767 then
        raise exception 'jobs.enqueue: max_attempts of job % must be from 1 to 32767', enqueue.kind using errcode = '22023';
    end if;
    if enqueue.priority not between -32768 and 32767 then
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
language plpgsql volatile
as $$
declare
    letter jobs.dead_letter;
begin
    delete from jobs.dead_letter where dead_letter.number = put_back.number returning * into letter;
    if letter is null then
        raise exception 'jobs.put_back: there is no number % in jobs.dead_letter', put_back.number using errcode = '02000';
    end if;
    if letter.job -> 'state' is not null then
        raise exception 'jobs.put_back: job % has ended, and this is its history: to drop it, delete from jobs.dead_letter where number = %',
            letter.id, letter.number using errcode = '22023';
    end if;
    return jobs.enqueue(
        kind => letter.kind,
        args => case json_typeof(letter.job -> 'args')
            when 'null' then (select payload.args from jobs.payload where payload.job_id = letter.id)
            else letter.job -> 'args' end,
        queue => letter.queue,
        priority => (letter.job ->> 'priority')::integer,
        max_attempts => greatest((letter.job ->> 'max_attempts')::integer, 1),
        tags => case json_typeof(letter.job -> 'tags') when 'array' then array(select json_array_elements_text(letter.job -> 'tags')) end
    );
end
$$;

insert into jobs.schema_migration (version, name, oldest_program) values (1, 'jobs', 1);
