-- The first schema: one table of jobs with a state, their failures, what workers share.
-- Locks: creates objects only; holds the file's write lock while it does.
--
-- Times are integers, microseconds since 1970 in UTC, so that they sort; read one with
-- datetime(run_at / 1000000, 'unixepoch'). The clock is SQLite's own and ticks in milliseconds.
-- If you print a schema with diesel's command line, leave these tables out of it: filter = { except_tables = ["^jobs_"] }.

create table jobs_schema_migration (
    version integer primary key,
    name text not null,
    applied_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    -- The oldest version of the schema whose programs still work on this one; null if only its own do.
    oldest_program integer
) strict;

-- `autoincrement`, because an id that came back after its job was pruned would make an old lease fit a new job.
create table jobs_job (
    id integer primary key autoincrement,
    state text not null default 'available' check (state in ('available', 'running', 'completed', 'cancelled', 'discarded')),
    kind text not null check (kind <> ''),
    queue text not null default 'default' check (queue <> ''),
    priority integer not null default 0 check (priority between -32768 and 32767),
    attempt integer not null default 0,
    max_attempts integer not null default 25 check (max_attempts > 0),
    crashes integer not null default 0,
    lease integer not null default 0,
    -- Features of later versions that this job uses, a bit each. Whoever does not know a bit leaves the row alone.
    flags integer not null default 0,
    run_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    enqueued_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    claimed_at integer,
    finished_at integer,
    expires_at integer,
    worker text,
    tags text not null default '[]',
    args text not null default '{}'
) strict;

-- The order of the claim, waiting jobs only. It ends in what jobs are passed over for, so that it takes no look at their
-- rows: a kind or a flag that the worker does not know, crashes after which a job must run alone.
create index jobs_job_claim on jobs_job (queue, priority desc, run_at, id, kind, crashes, flags) where state = 'available';

-- Jobs that were in crashes: few, if any.
create index jobs_job_crashed on jobs_job (crashes) where state = 'available' and crashes > 0;

-- Jobs in flight, for rescue.
create index jobs_job_running on jobs_job (worker) where state = 'running';

-- History in the order it goes.
create index jobs_job_expiry on jobs_job (expires_at) where expires_at is not null;

-- One row per failed attempt.
create table jobs_job_error (
    id integer primary key,
    job_id integer not null,
    attempt integer not null,
    kind text not null,
    message text not null,
    -- When the attempt was claimed and by whom; null where there was none, as when a waiting job is cancelled.
    started_at integer,
    worker text,
    at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
) strict;

create index jobs_job_error_job on jobs_job_error (job_id, id);

-- One row per worker process. Its heartbeat covers all its leases.
create table jobs_worker (
    id text primary key,
    host text not null,
    pid integer not null,
    queues text not null,
    lease_micros integer not null,
    started_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    heartbeat_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
) strict, without rowid;

-- Settings of queues at run time; a queue without a row has the defaults.
create table jobs_queue (
    name text primary key,
    paused integer not null default 0 check (paused in (0, 1))
) strict, without rowid;

-- What holds for the whole file: the environment that it belongs to, and whether it is frozen. One row at most. Both are copied
-- with the file, so that a copy is frozen where its original was, and is not served by workers of another environment.
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
    flags integer not null default 0,
    paused integer not null default 0 check (paused in (0, 1))
) strict, without rowid;

-- One row per job for people, and to join with: the state says why a waiting job waits.
create view jobs_job_view as
select id, kind, queue,
       case when state <> 'available' then state
            when run_at <= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) then 'available'
            when attempt > 0 then 'retrying' else 'scheduled' end as state,
       priority, attempt, max_attempts, crashes, run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args,
       (select e.message from jobs_job_error e where e.job_id = jobs_job.id order by e.id desc limit 1) as last_error,
       flags
from jobs_job;

insert into jobs_schema_migration (version, name, oldest_program) values (1, 'jobs', 1);
