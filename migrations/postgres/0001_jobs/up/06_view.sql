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
