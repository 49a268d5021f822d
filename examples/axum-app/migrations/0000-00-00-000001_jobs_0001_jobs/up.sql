-- The first schema: three tables a job moves through, what workers share, the view people read, the way in from SQL.
-- Locks: creates objects only; takes none on tables of the application.

create schema jobs;

-- Everything is in here. `diesel print-schema` looks at `public` and never sees it.
comment on schema jobs is 'Background jobs. Read jobs.job, write through jobs.enqueue(..); the tables below them change between versions.';

create table jobs.schema_migration (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    -- The oldest version of the schema whose programs still work on this one; null if only its own do.
    oldest_program integer
);

create sequence jobs.job_id as bigint;

-- Conditions on values are domains and not check constraints: a server parses the constraints of a table for every statement that
-- inserts there, which took more than a third of an enqueue, and the conditions of a domain once per session.

-- 'infinity' is a time to PostgreSQL and to nobody else: one such row would stop every claim that meets it.
create domain jobs.instant as timestamptz check (value between '0001-01-01' and '9999-12-31');
create domain jobs.tags as text[] check (array_ndims(value) = 1 and array_position(value, null) is null);
create domain jobs.smallint_from_0 as smallint check (value >= 0);
create domain jobs.smallint_from_1 as smallint check (value > 0);
create domain jobs.integer_from_0 as integer check (value >= 0);

-- Jobs that wait: now, later or again. Narrow and hot, every row is inserted once and deleted once.
-- Its indexes are the order of the claim, and the id, for whoever asks after one job.
-- `args` is null where they are large: see jobs.payload.
create table jobs.ready (
    id bigint not null default nextval('jobs.job_id'),
    run_at jobs.instant not null default clock_timestamp(),
    enqueued_at jobs.instant not null default clock_timestamp(),
    lease jobs.integer_from_0 not null default 0,
    -- Features of later versions that this job uses, a bit each. Whoever does not know a bit leaves the row alone.
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

-- It is unique, which costs nothing because `id` ends it, so that it can say in logical replication which row went: without an
-- identity the first `create publication .. for all tables` would make every claim fail. (`replica identity full` needs an
-- equality of `args`, which json does not have: the subscriber would stop.)
create unique index ready_claim on jobs.ready (queue, priority desc, run_at, id);

alter table jobs.ready replica identity using index ready_claim;

-- One job's state, beside a million that wait. A row of a bulk takes a fifth more of the server's time for it. A BRIN index takes half of
-- that while rows only come, and more once a vacuum has been there; it ends as a scan of the table where rows come and go in any order.
create index ready_id on jobs.ready (id);

-- After a vacuum of the empty queue the server takes the table for empty until the next `analyze`, however many jobs come. Every index
-- then seems as good as any, and a look by id or a join would read the whole of one. These statistics tell it that an id is rare and that
-- the rows lie in its order: all rows then are dearer than one.
alter table jobs.ready alter column id set (n_distinct = 1000000000);
insert into jobs.ready (id, kind, queue, args) select id, '', '', '{}' from generate_series(1, 100) id;
analyze jobs.ready (id);
delete from jobs.ready;

-- Jobs that were in crashes: few, if any.
create index ready_crashed on jobs.ready (crashes) where crashes > 0;

-- Jobs under a lease. As many rows as jobs in flight.
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

-- Jobs that ended: completed (1), cancelled (2), discarded (3). Append-only until the pruner takes them.
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
    -- With the default, a fifth of a long history would be dead before anybody came.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05
);

create index finished_expiry on jobs.finished (expires_at) where expires_at is not null;

-- Arguments that are too large to be written anew each time their job moves on.
create table jobs.payload (
    job_id bigint primary key,
    args json not null
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000
);

-- Fires for large arguments, whoever inserts them, and for none at all in a job that was never claimed: right if they were
-- set aside already, refused otherwise. A job that comes back from a claim is let in as it is.
--
-- It has the rights of the schema's owner, so that whoever may enqueue need not be let into the arguments of others; and it is
-- nobody else's to make a trigger of on a table of theirs.
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
    -- When the attempt was claimed and by whom; null where there was none, as when a waiting job is cancelled.
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

-- One bit of 1024 for each of these queues. Different queues may share one: then an enqueue wakes somebody in vain.
create function jobs.queue_filter(queues text[]) returns bit(1024)
language sql immutable parallel safe
as $$
    select coalesce(bit_or(set_bit(repeat('0', 1024)::bit(1024), hashtext(queue) & 1023, 1)), repeat('0', 1024)::bit(1024))
    from unnest(queues) as queue
$$;

-- One row per worker process. Its heartbeat covers all its leases. `queue_filter` tells an enqueue whether this worker serves its
-- queue, in the same time for one queue and for ten thousand.
create table jobs.worker (
    id uuid primary key,
    host text not null,
    pid integer not null,
    queues text[] not null,
    -- One of thousands of years would break the sums of everybody who looks for dead workers.
    lease interval not null check (lease between interval '0' and interval '3650 days'),
    started_at jobs.instant not null default now(),
    heartbeat_at jobs.instant not null default now(),
    idle boolean not null default false,
    queue_filter bit(1024) not null generated always as (jobs.queue_filter(queues)) stored
) with (
    -- A few rows, each changed several times a second, and read by every enqueue.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- Rows that the database refuses to move on, as one that repeats the id of another: set apart, so that all others go on.
create table jobs.dead_letter (
    number bigint generated always as identity primary key,
    id bigint not null,
    kind text not null,
    queue text not null,
    reason text not null,
    at timestamptz not null default now(),
    -- The whole row.
    job json not null
);

-- Settings of queues at run time; a queue without a row has the defaults.
create table jobs.queue (
    name text primary key,
    paused boolean not null default false
);

-- What holds for the whole database: the environment that it belongs to, and whether it is frozen. One row at most. Both are copied
-- with the data, so that a copy is frozen where its original was, and is not served by workers of another environment.
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

-- One row per job, whatever table it stands in. Its columns stay what they are; later versions add some at the end.
create view jobs.job as
select id, kind, queue, state, priority, attempt::integer, max_attempts::integer, crashes::integer,
       run_at, enqueued_at, claimed_at, finished_at, worker, lease, coalesce(tags, '{}') as tags,
       -- Should somebody have deleted them: something that is never decoded, not a row that nobody can read.
       coalesce(args, (select payload.args from jobs.payload where payload.job_id = job.id), 'null') as args,
       (select e.message from jobs.job_error e where e.job_id = job.id order by e.id desc limit 1) as last_error,
       flags
from (
    -- With the types of the other tables: where the three differ, a query of the view reads all of them.
    select id, kind, queue,
           case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags
    from jobs.ready
    union all
    -- With names, though only those above count: PostgreSQL makes some up, and others when the view comes back from a dump.
    select id, kind, queue, 'running' as state, priority, attempt, max_attempts, crashes, run_at, enqueued_at,
           claimed_at, null as finished_at, worker, lease, tags, args, flags
    from jobs.running
    union all
    select id, kind, queue, (array['completed', 'cancelled', 'discarded'])[state], priority, attempt, max_attempts, crashes,
           run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args, flags
    from jobs.finished
) job;

comment on view jobs.job is 'All jobs, one row each, whether they wait, run or have ended and are still kept. Read only.';
comment on column jobs.job.id is 'What enqueueing answered. Unique, and larger for jobs that were enqueued later.';
comment on column jobs.job.kind is 'The name of the job, which says what handles it.';
comment on column jobs.job.queue is 'The queue.';
comment on column jobs.job.state is 'available: due now. scheduled: due later, never failed. retrying: due later, after a failed attempt. running: under a lease of a worker. completed, cancelled, discarded: ended.';
comment on column jobs.job.priority is 'Higher runs first, within a queue.';
comment on column jobs.job.attempt is 'Attempts so far, the running one included.';
comment on column jobs.job.max_attempts is 'Attempts after which a failure discards it.';
comment on column jobs.job.crashes is 'How often a worker died with it.';
comment on column jobs.job.run_at is 'When it is or was due.';
comment on column jobs.job.enqueued_at is 'When it was enqueued.';
comment on column jobs.job.claimed_at is 'When a worker took the newest attempt.';
comment on column jobs.job.finished_at is 'When it ended.';
comment on column jobs.job.worker is 'Who has or had the newest attempt: jobs.worker.id.';
comment on column jobs.job.lease is 'How often it was claimed.';
comment on column jobs.job.tags is 'Labels from enqueueing.';
comment on column jobs.job.args is 'The arguments, as they were enqueued.';
comment on column jobs.job.last_error is 'The newest failure in words. All of them are in jobs.job_error.';
comment on column jobs.job.flags is 'Features of later versions that it uses, a bit each.';

-- Wakes the sleeping workers of this queue when the transaction commits; silent while none sleeps, because NOTIFY takes a global
-- lock. Silent, too, where `jobs.notify` is `off`: a transaction that notified cannot be prepared for a two-phase commit.
create function jobs.wake(queue text) returns void
language sql volatile
as $$
    select pg_notify('jobs', wake.queue)
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(wake.queue) & 1023) = 1)
$$;

-- The way in from plain SQL, psql and triggers.
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
    -- 'infinity' is a time to PostgreSQL and to nobody else.
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

-- Enqueues what stands in jobs.dead_letter as a new job, under a new id, with all its attempts, due now; it is gone from there then.
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
