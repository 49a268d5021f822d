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
