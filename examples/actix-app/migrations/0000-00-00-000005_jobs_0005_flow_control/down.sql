-- Back to version 4 of the schema. It deletes no job. Jobs with a limit lose it: those that wait for it become available, and all of
-- them may run at once. Jobs that expire lose this, too.
--
-- A view cannot lose columns, so the view jobs.job is dropped and created again. This fails, and reverts nothing, if a view
-- of the application reads jobs.job. Afterwards grant the privileges on jobs.job again: `worker migrate roles`.
--
-- It is one statement, because psql continues with the next statement after an error.
-- Locks: access exclusive on all tables that it changes.

do $down$
begin
    drop view jobs.job;
    lock table jobs.held, jobs.ready, jobs.running, jobs.finished in access exclusive mode;
    insert into jobs.ready (id, run_at, lease, attempt, max_attempts, crashes, enqueued_at, priority, kind, queue, tags, args, traceparent)
    select id, greatest(run_at, clock_timestamp()), lease, attempt, max_attempts, crashes, enqueued_at, priority, kind, queue, tags, args, traceparent
    from jobs.held order by id;
    update jobs.ready set flags = flags & ~509 where flags & 509 <> 0;
    update jobs.running set flags = flags & ~509 where flags & 509 <> 0;
    update jobs.finished set flags = flags & ~509 where flags & 509 <> 0;

    drop index jobs.worker_idle;
    drop function jobs.enqueue(text, json, text, integer, timestamptz, integer, text[], integer, text[], text, text, text[], interval, text, text, integer, interval, integer, interval, json, text, text[]);
    drop function jobs.is_too_deep(text);
    drop function jobs.enqueue_unique(text[], text[], boolean[], float8[], json[], text[], text[], smallint[], interval[], timestamptz[], smallint[], text[], json[], text[], json[], interval[]);
    drop function jobs.enqueue_unique_alike(text, text[], boolean, float8, text, text, text, smallint, timestamptz, smallint, text[], json[], text);
    drop function jobs.enqueue_unique_free(text, text, boolean, float8, text, text, text, smallint, timestamptz, smallint, text[], json, text);
    drop function jobs.enqueue_unique_one(text, text, json, text, text, smallint, timestamptz, smallint, text[], json, text, json);
    drop function jobs.take_keys(text[], text[], boolean[], float8[], json[], json[], timestamptz[], smallint[]);
    drop function jobs.take_key(text, text, json, json, timestamptz, smallint);
    drop function jobs.replace_waiting(jobs.unique_key, json, json, timestamptz, smallint);
    drop function jobs.unique_rule(text, json, text[], interval, text, text);
    drop function jobs.canonical(json);
    drop function jobs.may_be_full();
    drop function jobs.full_jobs(integer);
    drop function jobs.admit(boolean);
    drop function jobs.sweep(text[], text[]);
    drop function jobs.next_in_sequence(text, text);
    drop function jobs.free_in_sequence(text[], text[], text[], text[]);
    drop function jobs.free_in_rate(text[], text[], text[], text[], integer);
    drop function jobs.free_in_fair(text[], text[], text[], text[], integer);
    drop function jobs.free_of_tenants(text, text, text[], text[], bigint);
    drop function jobs.next_tenants(text, text, text, boolean, bigint);
    drop function jobs.sweep_turns();
    drop function jobs.fair_flow(text, json, json, text[]);
    drop function jobs.next_token();
    drop function jobs.flow_flags(json);
    drop function jobs.free_jobs(text[], text[], json, text[], text[], integer);
    drop function jobs.heads(text[], text[], json);
    drop function jobs.lowered_floors(json, text[], text[], smallint[], timestamptz[]);
    drop function jobs.write_floors(bigint, json, json);
    drop function jobs.admit_held(tid[], boolean);
    drop function jobs.set_held_apart(tid, text);
    drop function jobs.admit_several(tid[], text[], text[], text[], text[], bigint, boolean);
    drop function jobs.free_in_lane(text, text[], text[], bigint, timestamptz, boolean);
    drop function jobs.wait_at(tid, json);
    drop function jobs.start_or_refuse(tid, json, timestamptz);
    drop function jobs.start_in_lane(tid[], json, timestamptz);
    drop function jobs.full_limit(json, timestamptz);
    drop function jobs.free_of(json, timestamptz);
    drop function jobs.spend_tokens(json, bigint, timestamptz);
    drop function jobs.tokens(json, timestamptz);
    drop function jobs.waits_at_limit(text);
    drop function jobs.next_token_of(jobs.held);
    drop function jobs.limit_of(json, text);
    drop function jobs.flow_of_all(text, json, json, json);
    drop function jobs.lane(json);
    drop function jobs.flow(text, json, integer, text[], text, text, integer, interval, integer, text);
    drop function jobs.wake_admission();
    create or replace function jobs.wake(queue text) returns void
    language sql volatile
    as $$
        select pg_notify('jobs', wake.queue)
        where current_setting('jobs.notify', true) is distinct from 'off'
          and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(wake.queue) & 1023) = 1)
    $$;
    drop function jobs.allowed(text, integer);
    drop table jobs.held, jobs.slot, jobs.admission_floor, jobs.nudge, jobs.rate, jobs.fair_turn, jobs.expiry, jobs.admission, jobs.limit_setting, jobs.unique_key;
    drop function jobs.floor_number();
    drop function jobs.check_limits();
    drop function jobs.limits_are_possible(json);
    alter table jobs.ready drop column flow;
    alter table jobs.running drop column flow;
    alter table jobs.finished drop column flow;
    alter table jobs.worker drop column draining_at;

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
           traceparent
    from (
        -- The casts give these columns the same types as in the other two tables. If the types differed, the planner would
        -- not pass a condition on the id to the three tables, and a query by id would read all rows.
        select id, kind, queue,
               case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state,
               priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
               run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
               null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
               lease::integer as lease, tags::text[] as tags, args, flags, traceparent
        from jobs.ready
        union all
        -- The view takes its column names from the select above. Constants have a name here, too, because PostgreSQL would
        -- generate names for them, and different ones when the view is restored from a dump.
        select id, kind, queue, 'running' as state, priority, attempt, max_attempts, crashes, run_at, enqueued_at,
               claimed_at, null as finished_at, worker, lease, tags, args, flags, traceparent
        from jobs.running
        union all
        select id, kind, queue, (array['completed', 'cancelled', 'discarded'])[state], priority, attempt, max_attempts, crashes,
               run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args, flags, traceparent
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
    comment on column jobs.job.output is 'What the handler of a completed job returned. Null if it returned nothing.';
    comment on column jobs.job.output_note is 'Why the output was not stored. Null if it was stored, or if there was none.';
    comment on column jobs.job.progress_done is 'How much of the job is done, as its handler has reported last. Null if it has reported nothing.';
    comment on column jobs.job.progress_total is 'Of how much. Null if the handler has reported nothing.';
    comment on column jobs.job.progress_message is 'What the handler has said of its progress last.';
    comment on column jobs.job.progress_at is 'The time at which the progress was stored.';
    comment on column jobs.job.traceparent is 'The trace context of the enqueue. Null if there is none.';

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

create or replace function jobs.put_back(number bigint) returns bigint
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

    delete from jobs.schema_migration where version = 5;
end
$down$;
