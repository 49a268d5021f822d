-- Version 1 of the schema: one table of jobs with their state, a table of their failures, and the tables that workers
-- share.
-- Locks: it only creates objects. It holds the file's write lock meanwhile.
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
    queue text not null default 'default' check (queue <> ''),
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
    args text not null default '{}'
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
    at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
) strict;

create index jobs_job_error_job on jobs_job_error (job_id, id);

-- One row per worker process. Its heartbeat extends all its leases.
create table jobs_worker (
    id text primary key,
    host text not null,
    pid integer not null,
    queues text not null,
    lease_micros integer not null,
    started_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    heartbeat_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
) strict, without rowid;

-- Settings of queues at run time. A queue without a row has the defaults.
create table jobs_queue (
    name text primary key,
    paused integer not null default 0 check (paused in (0, 1))
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
    flags integer not null default 0,
    paused integer not null default 0 check (paused in (0, 1))
) strict, without rowid;

-- One row per job, for your own queries and joins. For a waiting job, `state` is available (due now), scheduled (due
-- later) or retrying (due later, after a failed attempt).
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
