-- Version 5 of the schema: limits on how many jobs run at once. Programs of the versions 1 to 4 still work on it. Jobs that they
-- enqueue have no limit, and they leave jobs with a limit alone.
-- Locks: access exclusive on jobs.ready, jobs.running, jobs.finished and the view jobs.job, for a moment each. All other objects
-- are new.

-- The limit of the job: {"limit": its name, "key": its key, "most": how many may run at once}. Null for jobs without a limit.
-- They have the flag 1, so that earlier programs leave them alone. A job of a sequence has the limit 1, the flag 4, and also
-- "sequence": "halt" or "skip", which says what happens when it is discarded. A job with a rate has the flag 8, and also "rate": in how many
-- microseconds ("per") as many as "most" may start, and how many at once ("burst"). "discard": it is discarded if there is no token.
alter table jobs.ready add column flow json;
alter table jobs.running add column flow json;
alter table jobs.finished add column flow json;

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
    -- From `flow`.
    most integer not null,
    -- Whether it is not due yet. An index finds such jobs when they become due. Then admission sets it to false.
    later boolean not null default false,
    -- Whether admission has found its queue or its kind paused. After a resume, an index finds such jobs.
    paused boolean not null default false,
    kind text not null,
    queue text not null default 'default',
    limit_name text not null,
    limit_key text not null,
    tags jobs.tags,
    args json,
    traceparent text,
    flow json not null,
    -- Admission computes with these numbers, and must not fail.
    constraint rate_is_possible check (case when flags & 8 = 0 then true else coalesce(
        most > 0 and (flow #>> '{rate,burst}')::integer between 1 and 10000 and (flow #>> '{rate,per}')::bigint between 1000 and 31622400000000, false
    ) end)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 50000
);

-- In the order of admission. A key that is full delays no other one, because each has a range of its own. Jobs that may not start
-- now are in other indexes, so that admission does not read them again and again.
create unique index held_order on jobs.held (limit_name, limit_key, priority desc, run_at, id) where not later and not paused and flags & 12 = 0;
-- A sequence is admitted in the order of the ids. A job that is not due stops those behind it.
create index held_sequence on jobs.held (limit_name, limit_key, id) where flags & 4 <> 0;
-- Jobs with a rate, in the order of admission.
create index held_rate on jobs.held (limit_name, limit_key, priority desc, run_at, id) where not later and not paused and flags & 8 <> 0;
-- For a search by id. It is unique and has all rows, because a subscriber finds rows by it; an id alone is not unique if somebody restores
-- an earlier value of the sequence, and then an enqueue must not fail.
create unique index held_id on jobs.held (id, enqueued_at);
alter table jobs.held replica identity using index held_id;
create index held_later on jobs.held (run_at, id) where later;
create index held_paused on jobs.held (queue, kind) where paused;

-- As for jobs.ready: without these statistics a search by id would read the whole table after a vacuum of the empty one.
alter table jobs.held alter column id set (n_distinct = 1000000000);
insert into jobs.held (id, kind, args, most, limit_name, limit_key, flow) select id, '', '{}', 1, '', '', '{}' from generate_series(1, 100) id;
analyze jobs.held (id);
delete from jobs.held;

create trigger set_payload_aside before insert on jobs.held
    for each row when (pg_column_size(new.args) > 2000 or new.args is null and new.lease = 0) execute function jobs.set_payload_aside();

-- One row for each job with a limit in jobs.ready and jobs.running. Only admission inserts a row. The statement that moves the job
-- away deletes it. So the number of rows of a key cannot drift from the number of its jobs. A job of a sequence keeps its slot until it
-- has ended for good, also while it is held before its next attempt.
create table jobs.slot (
    job_id bigint not null,
    limit_name text not null,
    limit_key text not null,
    -- When the job was discarded, which halts its sequence. The row stays, also when the job is deleted, until the job is retried or an
    -- operator skips it.
    halted_at jobs.instant,
    primary key (job_id, limit_name)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index slot_key on jobs.slot (limit_name, limit_key);
create index slot_halted on jobs.slot (limit_name, limit_key) where halted_at is not null;

-- A nudge says that a key may have a free slot, or a new job. The transaction that has freed or brought something inserts it, also
-- if no job of the key is held. Only admission deletes it, and then looks at the key in a later snapshot. It has no index, so that
-- transactions do not wait for each other.
create table jobs.nudge (
    limit_name text not null,
    limit_key text not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

alter table jobs.nudge replica identity full;

-- The tokens of a key with a rate. Each admission spends one. A key without a row has all its tokens. Only admission changes it, so
-- the lock of jobs.admission is the lock of these rows, too.
create table jobs.rate (
    limit_name text not null,
    limit_key text not null,
    -- When it has all its tokens again. After this time the row says nothing, and a sweep deletes it.
    full_at jobs.instant not null,
    -- When admission looks at the key again, while jobs wait for a token.
    next_at jobs.instant,
    primary key (limit_name, limit_key)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index rate_next on jobs.rate (next_at) where next_at is not null;
create index rate_full on jobs.rate (full_at) where next_at is null;

-- At most one row. The session that has locked it admits. No other session counts slots meanwhile. The first pass inserts it, and not
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
    -- The job whose slot the last sweep looked at last.
    after_slot bigint not null default 0
) with (fillfactor = 50);

-- What operators have set: how many jobs of each key of a limit run at once, instead of what the jobs say. It has few rows.
create table jobs.limit_setting (
    name text primary key,
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

create or replace view jobs.job as
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
       flow
from (
    -- The casts give these columns the same types as in the other two tables. If the types differed, the planner would
    -- not pass a condition on the id to the three tables, and a query by id would read all rows.
    select id, kind, queue,
           case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags, traceparent, flow
    from jobs.ready
    union all
    select id, kind, queue,
           case when run_at <= now() then 'held' when attempt > 0 then 'retrying' else 'scheduled' end as state,
           priority, attempt::smallint as attempt, max_attempts::smallint as max_attempts, crashes::smallint as crashes,
           run_at::timestamptz as run_at, enqueued_at::timestamptz as enqueued_at,
           null::timestamptz as claimed_at, null::timestamptz as finished_at, null::uuid as worker,
           lease::integer as lease, tags::text[] as tags, args, flags, traceparent, flow
    from jobs.held
    union all
    -- The view takes its column names from the select above. Constants have a name here, too, because PostgreSQL would
    -- generate names for them, and different ones when the view is restored from a dump.
    select id, kind, queue, 'running' as state, priority, attempt, max_attempts, crashes, run_at, enqueued_at,
           claimed_at, null as finished_at, worker, lease, tags, args, flags, traceparent, flow
    from jobs.running
    union all
    select id, kind, queue, (array['completed', 'cancelled', 'discarded'])[state], priority, attempt, max_attempts, crashes,
           run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args, flags, traceparent, flow
    from jobs.finished
) job;

comment on column jobs.job.state is 'available: due now. scheduled: due later, never failed. retrying: due later, after a failed attempt. held: due, and waits for its limit, its turn or a token of its rate. running: a worker has a lease for it. completed, cancelled, discarded: ended.';
comment on column jobs.job.flow is 'The limit, the sequence or the rate of the job, with its name and its key. Null if it has none.';

-- Wakes the workers that admit held jobs, when the transaction commits: a notification without a queue. It sends none while no
-- worker is idle: see jobs.wake.
create function jobs.wake_admission() returns void
language sql volatile
as $$
    select pg_notify('jobs', '')
    where current_setting('jobs.notify', true) is distinct from 'off' and exists (select from jobs.worker where idle)
$$;

-- The limit of a job, as in the column `flow`. Null without `most`. The key is the JSON of the arguments that `by` names. A long key
-- is replaced by its SHA-256. The function `key` in `jobs-core/src/limit.rs` makes the same key.
create function jobs.flow(
    kind text, args json, most integer, by text[], limit_name text, sequence text default null, rate integer default null,
    per interval default null, burst integer default null
) returns json
language plpgsql immutable
as $$
declare
    name text;
    value json;
    type text;
    key text := '';
    per_us bigint;
begin
    if flow.rate is null and (flow.per is not null or flow.burst is not null) then
        raise exception 'jobs.enqueue: job % has `per` or `burst`, and no `rate`', flow.kind using errcode = '22023';
    end if;
    if flow.rate is not null then
        if most is not null or flow.sequence is not null then
            raise exception 'jobs.enqueue: job % has one of `concurrency`, `sequence` and `rate`, not several', flow.kind using errcode = '22023';
        end if;
        if flow.rate not between 1 and 1000000 then
            raise exception 'jobs.enqueue: rate of job % must be from 1 to 1000000', flow.kind using errcode = '22023';
        end if;
        if flow.per is null or flow.per < interval '1 millisecond' or flow.per > interval '366 days' then
            raise exception 'jobs.enqueue: job % with `rate` needs `per`, from a millisecond to 366 days', flow.kind using errcode = '22023';
        end if;
        per_us := (extract(epoch from flow.per) * 1000000)::bigint;
        if per_us < flow.rate::bigint * 100 then
            raise exception 'jobs.enqueue: rate of job % allows more than 10000 starts in a second', flow.kind using errcode = '22023';
        end if;
        burst := coalesce(flow.burst, least(greatest(flow.rate::bigint * 100000 / per_us, 1), 10000));
        if burst not between 1 and 10000 then
            raise exception 'jobs.enqueue: burst of job % must be from 1 to 10000', flow.kind using errcode = '22023';
        end if;
    end if;
    if flow.sequence is not null then
        if flow.sequence not in ('halt', 'skip') then
            raise exception 'jobs.enqueue: sequence of job % must be halt or skip: what happens when the job is discarded', flow.kind using errcode = '22023';
        end if;
        if most is not null then
            raise exception 'jobs.enqueue: job % has either `sequence` or `concurrency`, not both', flow.kind using errcode = '22023';
        end if;
        most := 1;
    end if;
    if most is null and flow.rate is null then
        if by is not null or flow.limit_name is not null then
            raise exception 'jobs.enqueue: job % has `by` or `limit_name`, and neither `concurrency` nor `sequence` nor `rate`', flow.kind using errcode = '22023';
        end if;
        return null;
    end if;
    if most not between 1 and 10000 then
        raise exception 'jobs.enqueue: concurrency of job % must be from 1 to 10000', flow.kind using errcode = '22023';
    end if;
    if flow.limit_name = '' or octet_length(flow.limit_name) > 200 then
        raise exception 'jobs.enqueue: limit_name of job % must have 1 to 200 bytes', flow.kind using errcode = '22023';
    end if;
    foreach name in array coalesce(by, '{}') loop
        value := flow.args -> name;
        type := json_typeof(value);
        key := key || case when key = '' then '' else ',' end || case
            when type = 'string' then to_json(flow.args ->> name)::text
            when type = 'boolean' or type = 'null' or type = 'number' and value::text ~ '^(0|-?[1-9][0-9]*)$' then value::text
            else '!' end;
        if type is null or right(key, 1) = '!' then
            raise exception 'jobs.enqueue: the argument % of job % is no key of a limit: it must be a text, a whole number, a boolean or null',
                name, flow.kind using errcode = '22023';
        end if;
    end loop;
    key := '[' || key || ']';
    if octet_length(key) > 200 then
        key := 'sha256:' || encode(sha256(convert_to(key, 'UTF8')), 'hex');
    end if;
    return json_strip_nulls(json_build_object(
        'limit', coalesce(flow.limit_name, regexp_replace(flow.kind, '\.v[0-9]+$', '')), 'key', key, 'most', coalesce(most, flow.rate),
        'sequence', flow.sequence, 'rate', case when flow.rate is not null then json_build_object('per', per_us, 'burst', burst) end
    ));
end
$$;

-- The flags of a job with this `flow`.
create function jobs.flow_flags(flow json) returns integer
language sql immutable
as $$
    select case when flow is null then 0 when flow -> 'rate' is not null then 9 when flow ->> 'sequence' is not null then 5 else 1 end
$$;

-- The held job whose turn it is in a sequence: the one that has the slot, because it waits for its next attempt or was retried, else the one
-- with the lowest id. Null while another job has the slot.
create function jobs.next_in_sequence(name text, key text) returns bigint
language sql stable
as $$
    select case when exists (select from jobs.slot s where s.limit_name = name and s.limit_key = key)
        then (select s.job_id from jobs.slot s where s.limit_name = name and s.limit_key = key
              and exists (select from jobs.held h where h.id = s.job_id and h.flags & 4 <> 0 offset 0) limit 1)
        else (select h.id from jobs.held h where h.flags & 4 <> 0 and h.limit_name = name and h.limit_key = key order by h.id limit 1)
    end
$$;

-- A part of jobs.admit: what a sweep does besides the nudges. It nudges keys of which nobody has said anything. Returns whether there is
-- more to do at once.
create function jobs.sweep(paused_queues text[], paused_kinds text[]) returns boolean
language plpgsql volatile
as $$
declare
    most_keys constant integer := 1000;
    most_jobs constant integer := 5000;
    most_slots constant integer := 500;
    moment constant timestamptz := clock_timestamp();
    place jobs.admission;
    more boolean;
    next_name text;
    next_key text;
    next_sequence text;
    next_sequence_key text;
    next_rate text;
    next_rate_key text;
    next_slot bigint;
    found_keys bigint;
begin
    select * into place from jobs.admission;

    -- Jobs that have become due.
    with due as (
        update jobs.held set later = false where ctid = any(array(
            select h.ctid from jobs.held h where h.later and h.run_at <= moment order by h.run_at, h.id limit most_jobs for no key update skip locked
        ))
        returning limit_name, limit_key
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key) select distinct d.limit_name, d.limit_key from due d
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
            returning limit_name, limit_key
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key) select distinct r.limit_name, r.limit_key from resumed r
        )
        select more or count(*) = most_jobs into more from resumed;
    end if;

    -- The next keys with a free slot and a job for it.
    with recursive key (name, value, number) as (
        (select h.limit_name, h.limit_key, 1 from jobs.held h
         where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (place.after_name, place.after_key)
         order by h.limit_name, h.limit_key limit 1)
        union all
        select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
            select h.limit_name, h.limit_key from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
            order by h.limit_name, h.limit_key limit 1
        ) next
        where key.number < most_keys
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key)
        select key.name, key.value from key cross join lateral (
            select h.most from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
            order by h.priority desc, h.run_at, h.id limit 1
        ) head
        where (select count(*) from jobs.slot s where s.limit_name = key.name and s.limit_key = key.value) < jobs.allowed(key.name, head.most)
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
             order by h.limit_name, h.limit_key limit 1)
            union all
            select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
                select h.limit_name, h.limit_key from jobs.held h
                where h.flags & 4 <> 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
                order by h.limit_name, h.limit_key limit 1
            ) next
            where key.number < most_keys
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key)
            select key.name, key.value from key cross join lateral jobs.next_in_sequence(key.name, key.value) next (id)
            where exists (select from jobs.held h where h.id = next.id and not h.later and not h.paused)
            returning true
        ), last as (
            select key.name, key.value from key where key.number = most_keys
        )
        select (select l.name from last l), (select l.value from last l), count(*) into next_sequence, next_sequence_key, found_keys from nudged;
        more := more or next_sequence is not null and found_keys > 0;
    end if;

    -- The same for the next keys with a rate. Those that wait for a token have a time at which a pass looks at them.
    if exists (select from jobs.held where not later and not paused and flags & 8 <> 0) then
        with recursive key (name, value, number) as (
            (select h.limit_name, h.limit_key, 1 from jobs.held h
             where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (place.after_rate, place.after_rate_key)
             order by h.limit_name, h.limit_key limit 1)
            union all
            select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
                select h.limit_name, h.limit_key from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
                order by h.limit_name, h.limit_key limit 1
            ) next
            where key.number < most_keys
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key) select key.name, key.value from key
            where not exists (select from jobs.rate r where r.limit_name = key.name and r.limit_key = key.value and r.next_at is not null)
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

    -- Slots without a job. A person has deleted the job, without the slot.
    with seen as materialized (
        select s.job_id, s.limit_name, s.limit_key from jobs.slot s where s.job_id > place.after_slot order by s.job_id limit most_slots
    ), gone as (
        -- An array, because a join may look for each job once for each slot.
        delete from jobs.slot s where s.halted_at is null and s.job_id = any(array(
            select seen.job_id from seen
            where not exists (select from jobs.ready where id = seen.job_id offset 0)
              and not exists (select from jobs.running where id = seen.job_id offset 0)
              and not exists (select from jobs.held where id = seen.job_id offset 0)
        ))
        returning s.limit_name, s.limit_key
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key) select distinct g.limit_name, g.limit_key from gone g
    )
    select case count(*) when most_slots then max(seen.job_id) else 0 end into next_slot from seen;

    update jobs.admission set after_name = coalesce(next_name, ''), after_key = coalesce(next_key, ''), after_slot = next_slot,
        after_sequence = coalesce(next_sequence, ''), after_sequence_key = coalesce(next_sequence_key, ''),
        after_rate = coalesce(next_rate, ''), after_rate_key = coalesce(next_rate_key, '');
    return more;
end
$$;

-- A part of jobs.admit: locks held jobs of these keys, as many as have a free slot, and returns their places in the table. If queues
-- or kinds are paused, it looks at few jobs more than there are free slots. Those that are paused leave the order of admission first.
create function jobs.free_jobs(
    names text[], keys text[], paused_queues text[], paused_kinds text[], most_jobs integer, out places tid[], out goes_on boolean
)
language plpgsql volatile
as $$
declare
    most_ahead constant integer := 500;
begin
    goes_on := false;
    if cardinality(paused_queues) + cardinality(paused_kinds) = 0 then
        places := array(
            with free as materialized (
                select key.name, key.value, jobs.allowed(key.name, head.most) - (select count(*) from jobs.slot s where s.limit_name = key.name and s.limit_key = key.value) as number
                from unnest(names, keys) as key (name, value) cross join lateral (
                    select h.most from jobs.held h
                    where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
                    order by h.priority desc, h.run_at, h.id limit 1
                ) head
            )
            select pick.ctid from free cross join lateral (
                select h.ctid from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = free.name and h.limit_key = free.value
                order by h.priority desc, h.run_at, h.id
                limit greatest(free.number, 0)
                for update skip locked
            ) pick
            limit most_jobs
        );
        return;
    end if;

    with found as materialized (
        select front.ctid from unnest(names, keys) as key (name, value) cross join lateral (
            select h.ctid, h.queue, h.kind from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
            order by h.priority desc, h.run_at, h.id limit most_ahead
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
        insert into jobs.nudge (limit_name, limit_key) select distinct p.limit_name, p.limit_key from parted p
    )
    select count(*) > 0 into goes_on from parted;

    places := array(
        with free as materialized (
            select key.name, key.value, jobs.allowed(key.name, head.most) - (select count(*) from jobs.slot s where s.limit_name = key.name and s.limit_key = key.value) as number
            from unnest(names, keys) as key (name, value) cross join lateral (
                select h.most from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
                order by h.priority desc, h.run_at, h.id limit 1
            ) head
        )
        select pick.ctid from free cross join lateral (
            select h.ctid from jobs.held h
            where h.ctid = any(array(
                select front.ctid from jobs.held front
                where not front.later and not front.paused and front.flags & 12 = 0 and front.limit_name = free.name and front.limit_key = free.value
                order by front.priority desc, front.run_at, front.id limit greatest(free.number, 0) + most_ahead
            )) and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            order by h.priority desc, h.run_at, h.id
            limit greatest(free.number, 0)
            for update skip locked
        ) pick
        limit most_jobs
    );
end
$$;

-- A part of jobs.admit: the same for sequences. Returns the place of the next job of each, if it may start now.
create function jobs.free_in_sequence(names text[], keys text[], paused_queues text[], paused_kinds text[]) returns tid[]
language plpgsql volatile
as $$
begin
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        -- A sweep finds it after the resume.
        update jobs.held set paused = true where ctid = any(array(
            select h.ctid from unnest(names, keys) as key (name, value) cross join lateral jobs.next_in_sequence(key.name, key.value) next (id)
            cross join lateral (
                select h.ctid from jobs.held h where h.id = next.id and h.flags & 4 <> 0 and not h.paused
                  and (h.queue = any(paused_queues) or h.kind = any(paused_kinds))
                for no key update skip locked
            ) h
        ));
    end if;
    return array(
        select pick.ctid from unnest(names, keys) as key (name, value) cross join lateral jobs.next_in_sequence(key.name, key.value) next (id)
        cross join lateral (
            select h.ctid from jobs.held h where h.id = next.id and h.flags & 4 <> 0 and not h.later and not h.paused
              and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            for update skip locked
        ) pick
    );
end
$$;

-- A part of jobs.admit: the same for rates. It locks and returns the places of as many jobs as there are tokens, and spends the tokens.
--
-- The tokens come at equal times (GCRA). `every` is the time between two of them, in microseconds and rounded up. `lack` is the time until
-- all tokens are there. It is at most that of an empty key, because the clock may have been set back, or the job may come with another rate.
-- If tokens come fast, the next look takes several at once: at most a quarter of those that the key can have, and those of 20 ms.
create function jobs.free_in_rate(
    names text[], keys text[], paused_queues text[], paused_kinds text[], most_jobs integer, out places tid[], out goes_on boolean
)
language plpgsql volatile
as $$
declare
    most_ahead constant integer := 500;
    moment constant timestamptz := clock_timestamp();
    microsecond constant interval := interval '1 microsecond';
begin
    goes_on := false;
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        with found as materialized (
            select front.ctid from unnest(names, keys) as key (name, value) cross join lateral (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
                order by h.priority desc, h.run_at, h.id limit most_ahead
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
            insert into jobs.nudge (limit_name, limit_key) select distinct p.limit_name, p.limit_key from parted p
        )
        select count(*) > 0 into goes_on from parted;
    end if;

    with bucket as materialized (
        select key.name, key.value, head.burst, head.every,
               least(greatest(0, coalesce((
                   select (extract(epoch from r.full_at - moment) * 1000000)::bigint from jobs.rate r
                   where r.limit_name = key.name and r.limit_key = key.value
               ), 0)), head.burst * head.every) as lack
        from unnest(names, keys) as key (name, value) cross join lateral (
            select (h.flow #>> '{rate,burst}')::bigint as burst, ((h.flow #>> '{rate,per}')::bigint + h.most - 1) / h.most as every
            from jobs.held h
            where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
            order by h.priority desc, h.run_at, h.id limit 1
        ) head
    ), counted as materialized (
        select bucket.*, token.number as tokens, (
                   select count(*) from (
                       select from jobs.held h
                       where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = bucket.name and h.limit_key = bucket.value
                       limit token.number + 1
                   ) job
               ) as jobs
        from bucket cross join lateral (select (bucket.burst * bucket.every - bucket.lack) / bucket.every as number) token
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
                order by front.priority desc, front.run_at, front.id limit free.number
            )) and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            for update skip locked
        ) as places
        from free
    ), spent as (
        insert into jobs.rate as r (limit_name, limit_key, full_at, next_at)
        select p.name, p.value, moment + left_over.lack * microsecond,
               case when p.number < least(p.tokens, p.jobs) then moment
                    -- A later sweep takes what was skipped.
                    when p.jobs > p.tokens and cardinality(p.places) = p.number
                    then moment + (left_over.lack - (p.burst - least(greatest(p.burst / 4, 1), greatest(20000 / p.every, 1))) * p.every) * microsecond end
        from picked p cross join lateral (select p.lack + cardinality(p.places) * p.every as lack) left_over
        on conflict (limit_name, limit_key) do update set full_at = excluded.full_at, next_at = excluded.next_at
        where r.full_at <> excluded.full_at or r.next_at is distinct from excluded.next_at
    )
    select array(select unnest(p.places) from picked p), goes_on or exists (select from picked p where p.number < least(p.tokens, p.jobs))
    into places, goes_on;

    -- Those without a job do not wait any more.
    update jobs.rate r set next_at = null from unnest(names, keys) as key (name, value)
    where r.limit_name = key.name and r.limit_key = key.value and r.next_at <= moment and not exists (
        select from jobs.held h where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
    );
end
$$;

-- The seconds until admission looks at a key with a rate again. Null if no job waits for a token.
create function jobs.next_token() returns double precision
language sql volatile
as $$
    select extract(epoch from r.next_at - clock_timestamp())::float8 from jobs.rate r where r.next_at is not null order by r.next_at limit 1
$$;

-- A part of jobs.admit: moves the held jobs at these places, which it has locked. Returns how many.
create function jobs.admit_held(places tid[]) returns bigint
language plpgsql volatile
as $$
declare
    admitted bigint;
    queues text[];
begin
    with moved as (
        delete from jobs.held where ctid = any(places) returning *
    ), taken as (
        insert into jobs.slot (job_id, limit_name, limit_key) select m.id, m.limit_name, m.limit_key from moved m where m.flags & 8 = 0
        on conflict do nothing
    ), goes_on as (
        -- A discarded job that was retried does not halt its sequence any more.
        update jobs.slot set halted_at = null
        where job_id = any(array(select m.id from moved m where m.flags & 4 <> 0)) and halted_at is not null
    ), made as (
        -- A claim would find an earlier time than now only after a rescan.
        insert into jobs.ready (id, run_at, lease, attempt, max_attempts, crashes, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, flow)
        select m.id, clock_timestamp(), m.lease, m.attempt, m.max_attempts, m.crashes, m.enqueued_at, m.flags, m.priority, m.kind, m.queue, m.tags, m.args, m.traceparent, m.flow
        from moved m order by m.priority desc, m.run_at, m.id
        returning queue
    )
    select count(*), array_agg(distinct m.queue) into admitted, queues from made m;
    perform jobs.wake(queue) from unnest(queues) as queue;
    return admitted;
end
$$;

-- A part of jobs.admit: moves a held job that the database refuses to make available into jobs.dead_letter. The rest of its key goes on.
create function jobs.set_held_apart(place tid, message text) returns void
language plpgsql volatile
as $$
begin
    with gone as (
        delete from jobs.held where ctid = place returning *
    ), halted as (
        -- The later jobs of its sequence must not start without it, unless it says so.
        insert into jobs.slot (job_id, limit_name, limit_key, halted_at)
        select g.id, g.limit_name, g.limit_key, clock_timestamp() from gone g where g.flow ->> 'sequence' = 'halt'
        on conflict (job_id, limit_name) do update set halted_at = excluded.halted_at
    ), freed as (
        delete from jobs.slot where job_id = any(array(select g.id from gone g where coalesce(g.flow ->> 'sequence', '') <> 'halt'))
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key) select g.limit_name, g.limit_key from gone g
    )
    insert into jobs.dead_letter (id, kind, queue, reason, job)
    select g.id, g.kind, g.queue, 'the database refused to make it available: ' || left(message, 500), row_to_json(g) from gone g;
end
$$;

-- A pass of admission: moves held jobs to jobs.ready, as far as their limits allow it. `sweeps`: it also looks for keys of which
-- nobody has said anything: those whose jobs have become due or were resumed, and, to be safe, the next thousand keys.
-- `more`: there is more to do at once. `sweep_again`: the next pass should sweep, too. `set_apart`: how many jobs the database has refused.
-- `next_token`: in how many seconds the next token comes for which a job waits.
--
-- First it becomes the only session that admits, and only then, in later statements, it reads nudges and counts slots. In one
-- statement the snapshot would be older than the lock, and too many jobs would be admitted. So each statement must have a snapshot
-- of its own, which only READ COMMITTED gives.
--
-- The settings are those of a claim: the statistics show tables as empty that are not, or as full that are empty. Then the planner would
-- read whole tables in each pass: all held jobs, to find out that none of them is in a sequence.
create function jobs.admit(
    sweeps boolean, out is_busy boolean, out admitted bigint, out more boolean, out sweep_again boolean, out holds boolean, out set_apart bigint,
    out next_token double precision
)
language plpgsql volatile set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    most_nudges constant integer := 1000;
    most_jobs constant integer := 5000;
    most_refused constant integer := 100;
    moment constant timestamptz := clock_timestamp();
    names text[];
    keys text[];
    nudges bigint;
    paused_queues text[];
    paused_kinds text[];
    places tid[];
    rated_places tid[] := '{}';
    place tid;
    message text;
    state text;
begin
    is_busy := false; admitted := 0; more := false; sweep_again := false; holds := false; set_apart := 0;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'jobs.admit: it works only in READ COMMITTED' using errcode = '25001';
    end if;
    -- Most passes of most databases find nothing. They lock and write nothing.
    holds := exists (select from jobs.held);
    next_token := jobs.next_token();
    if not (sweeps and (holds or exists (select from jobs.rate))) and not exists (select from jobs.nudge) and coalesce(next_token > 0, true) then
        return;
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
    if exists (select from jobs.installation where frozen_at is not null) then
        return;
    end if;
    -- If a crash of the server loses the commit, the jobs are held again. A later commit that waits for the disk keeps this one, too.
    perform set_config('synchronous_commit', 'off', true);
    paused_queues := array(select q.name from jobs.queue q where q.paused);
    paused_kinds := array(select k.name from jobs.kind k where k.paused);

    if sweeps then
        sweep_again := jobs.sweep(paused_queues, paused_kinds);
        more := sweep_again;
    end if;

    -- What is nudged is committed, so the next statement sees it.
    with gone as (
        delete from jobs.nudge where ctid = any(array(select n.ctid from jobs.nudge n limit most_nudges)) returning limit_name, limit_key
    )
    select array_agg(k.limit_name), array_agg(k.limit_key), (select count(*) from gone)
    into names, keys, nudges from (
        select g.limit_name, g.limit_key from gone g
        union
        (select r.limit_name, r.limit_key from jobs.rate r where r.next_at <= moment order by r.next_at limit most_nudges)
    ) k;
    if names is null then
        return;
    end if;
    select f.places, more or f.goes_on or nudges >= most_nudges into places, more
    from jobs.free_jobs(names, keys, paused_queues, paused_kinds, most_jobs) f;
    if exists (select from jobs.held where flags & 4 <> 0) then
        places := places || jobs.free_in_sequence(names, keys, paused_queues, paused_kinds);
    end if;
    if next_token is not null or exists (select from jobs.held where not later and not paused and flags & 8 <> 0) then
        select f.places, more or f.goes_on into rated_places, more from jobs.free_in_rate(names, keys, paused_queues, paused_kinds, most_jobs) f;
    end if;

    begin
        admitted := jobs.admit_held(places || rated_places);
    exception when others then
        -- After conflicts, and if the server lacks resources or ends, the whole pass is tried again. A missing grant is not about one job.
        if left(sqlstate, 2) in ('40', '53', '55', '57', '58') or sqlstate = '42501' then
            raise;
        end if;
        -- A constraint or a trigger refuses a job, or its arguments were deleted. The other jobs go on.
        foreach place in array places || rated_places loop
            begin
                admitted := admitted + jobs.admit_held(array[place]);
            exception when others then
                state := sqlstate;
                message := sqlerrm;
                -- Other errors are not about the content of the job, such as a trigger that names a table that does not exist.
                if left(state, 2) in ('22', '23', 'P0') and set_apart < most_refused then
                    perform jobs.set_held_apart(place, message);
                    set_apart := set_apart + 1;
                else
                    raise warning 'jobs.admit: a held job cannot start (%): %', state, message;
                end if;
            end;
        end loop;
    end;

    if cardinality(places) >= most_jobs then
        insert into jobs.nudge (limit_name, limit_key) select key.name, key.value from unnest(names, keys) as key (name, value);
        more := true;
    end if;
    next_token := jobs.next_token();
end
$$;

-- The unique keys of jobs. A row says which job has the key. That job has it for as long as it waits or runs (`started`: for as long
-- as it waits for its first attempt), and at most until `until`. Otherwise the row is without effect, and the next enqueue with the key
-- gives it to its own job. The statement that ends a job deletes the row. It passes over a row that an enqueue has locked, so that
-- it never waits for a transaction of the application.
create table jobs.unique_key (
    name text not null,
    key text not null,
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

-- The same text for the same arguments: without spaces, and with sorted names. The function `canonical` in `jobs-core/src/unique.rs`
-- makes the same.
create function jobs.canonical(value json) returns text
language sql immutable
as $$
    select case json_typeof(value)
        when 'object' then '{' || coalesce((
            select string_agg(to_json(field.key)::text || ':' || jobs.canonical(field.value), ',' order by field.key collate "C")
            from json_each(value) field), '') || '}'
        when 'array' then '[' || coalesce((
            select string_agg(jobs.canonical(item.value), ',' order by item.place)
            from json_array_elements(value) with ordinality as item (value, place)), '') || ']'
        when 'string' then to_json(value #>> '{}')::text
        else value::text
    end
$$;

-- A part of jobs.take_key: changes the waiting job that has the key, if it waits. Each row is deleted and inserted anew, because no
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
        insert into jobs.held select held.*;
        insert into jobs.nudge (limit_name, limit_key) values (held.limit_name, held.limit_key);
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
    -- A claim would find an earlier time than now only after a rescan.
    ready.run_at := greatest(clock_timestamp(), case when quiet is not null then least(clock_timestamp() + quiet, ready.enqueued_at + longest)
                                                     when with_run_at then replace_waiting.run_at else ready.run_at end);
    insert into jobs.ready select ready.*;
    perform jobs.wake(ready.queue);
    return true;
end
$$;

-- Takes a unique key for a new job. `outcome`: 0 if the key is now that of the new job `id`, which the caller inserts; 1 if the job
-- `id` has it and stays as it is; 2 if the job `id` has it and was changed; 3 if the job `id` has it, which the rule calls an error.
--
-- The insert of the key decides. It waits for another transaction that has inserted the same key and is still open. Each statement
-- has a snapshot of its own, so it sees what the transaction that it has waited for has committed. No statement of a worker
-- takes a key, so a retry or a rescue cannot fail because of one.
create function jobs.take_key(rule json, args json, run_at timestamptz, priority smallint, out id bigint, out outcome smallint)
language plpgsql volatile set enable_seqscan = off
as $$
declare
    own_name constant text := rule ->> 'name';
    own_key constant text := rule ->> 'key';
    starts constant boolean := (rule ->> 'started')::boolean;
    fails constant boolean := (rule ->> 'error')::boolean;
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
            if waits or runs then
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
    inserted bigint[];
    taken record;
    failed integer;
begin
    for attempt in 1 .. 10 loop
        -- The keys that it has taken are given back if it begins again.
        begin
            ids := array(select nextval('jobs.job_id') from generate_series(1, cardinality(names)));
            with new as (
                insert into jobs.unique_key (name, key, job_id, started, until)
                select w.name, w.key, w.id, w.started, clock_timestamp() + make_interval(secs => w.within)
                from unnest(names, keys, ids, started, within) as w (name, key, id, started, within) where w.name is not null
                on conflict do nothing returning job_id
            )
            select array_agg(new.job_id) into inserted from new;
            outcomes := array_fill(0::smallint, array[cardinality(names)]);
            exit when cardinality(inserted) = wanted;
            for number in 1 .. cardinality(names) loop
                continue when names[number] is null or ids[number] = any(inserted);
                select t.id, t.outcome into taken from jobs.take_key(rules[number], args[number], run_ats[number], priorities[number]) t;
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
            -- A key that another job had was released and taken by another statement meanwhile, so the order was lost.
            when deadlock_detected then
                if attempt = 10 then
                    raise;
                end if;
        end;
    end loop;
end
$$;

-- Enqueues a job with a unique key. For the key and the outcome see jobs.take_key.
--
-- This function and the next one have the rights of the owner, because a role that only enqueues must not read or change jobs, or choose the
-- id of a job.
create function jobs.enqueue_unique_one(
    rule json, kind text, queue text, priority smallint, run_at timestamptz, max_attempts smallint, tags text[], args json, traceparent text,
    flow json, out id bigint, out outcome smallint
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    if flow is null then
        -- Usually no other job has the key: one statement.
        with taken as (
            insert into jobs.unique_key (name, key, job_id, started, until)
            values (rule ->> 'name', rule ->> 'key', nextval('jobs.job_id'), (rule ->> 'started')::boolean,
                    clock_timestamp() + make_interval(secs => (rule ->> 'within')::float8))
            on conflict do nothing returning job_id
        ), ready as (
            insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
            select t.job_id, 16, kind, queue, priority, run_at, max_attempts, tags, args, traceparent from taken t
        )
        select t.job_id into id from taken t;
        if found then
            outcome := 0;
            perform jobs.wake(queue);
            return;
        end if;
    end if;
    select t.id, t.outcome into id, outcome from jobs.take_key(rule, args, run_at, priority) t;
    if outcome <> 0 then
        return;
    end if;
    if flow is null then
        insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
        values (id, 16, kind, queue, priority, run_at, max_attempts, tags, args, traceparent);
        perform jobs.wake(queue);
        return;
    end if;
    insert into jobs.held (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, flow, limit_name, limit_key, most, later)
    values (id, 16 | jobs.flow_flags(flow), kind, queue, priority, run_at, max_attempts, tags, args, traceparent,
            flow, flow ->> 'limit', flow ->> 'key', (flow ->> 'most')::integer, run_at > clock_timestamp());
    insert into jobs.nudge (limit_name, limit_key) values (flow ->> 'limit', flow ->> 'key');
    perform jobs.wake_admission();
end
$$;

-- The same for many jobs, of which at least one is unique. See jobs.take_keys. A job is due after its delay, and not before its time.
-- Each text of `tags` is an array.
create function jobs.enqueue_unique(
    names text[], keys text[], started boolean[], within float8[], rules json[], kinds text[], queues text[], priorities smallint[],
    delays interval[], not_before timestamptz[], max_attempts smallint[], tags text[], args json[], traceparents text[], flows json[]
) returns table (place bigint, id bigint, outcome smallint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
        names, keys, enqueue_unique.started, within, rules, enqueue_unique.args, run_ats, priorities
    ) t;
    insert into jobs.ready (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent)
    select job.id, case when job.name is null then 0 else 16 end, job.kind, job.queue, job.priority, job.run_at, job.max_attempts, job.tags::text[],
           job.args, job.traceparent
    from unnest(ids, outcomes, names, kinds, queues, priorities, run_ats, enqueue_unique.max_attempts, enqueue_unique.tags, enqueue_unique.args, traceparents, flows)
        as job (id, outcome, name, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, flow)
    where job.outcome = 0 and job.flow is null;
    if found then
        perform jobs.wake(woken.queue) from (select distinct w.queue from unnest(queues, flows) as w (queue, flow) where w.flow is null) woken;
    end if;
    if exists (select from unnest(flows) as flow where flow is not null) then
        with new as materialized (
            select job.* from unnest(ids, outcomes, names, kinds, queues, priorities, run_ats, enqueue_unique.max_attempts, enqueue_unique.tags, enqueue_unique.args, traceparents, flows)
                as job (id, outcome, name, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, flow)
            where job.outcome = 0 and job.flow is not null
        ), held as (
            insert into jobs.held (id, flags, kind, queue, priority, run_at, max_attempts, tags, args, traceparent, flow, limit_name, limit_key, most, later)
            select n.id, case when n.name is null then 0 else 16 end | jobs.flow_flags(n.flow), n.kind, n.queue,
                   n.priority, n.run_at, n.max_attempts, n.tags::text[], n.args, n.traceparent, n.flow, n.flow ->> 'limit', n.flow ->> 'key',
                   (n.flow ->> 'most')::integer, n.run_at > clock_timestamp()
            from new n
        )
        insert into jobs.nudge (limit_name, limit_key) select distinct n.flow ->> 'limit', n.flow ->> 'key' from new n;
        perform jobs.wake_admission();
    end if;
    return query select t.place, t.id, t.outcome from unnest(ids, outcomes) with ordinality as t (id, outcome, place);
end
$$;

revoke execute on function jobs.enqueue_unique_one(json, text, text, smallint, timestamptz, smallint, text[], json, text, json) from public;
revoke execute on function jobs.enqueue_unique(text[], text[], boolean[], float8[], json[], text[], text[], smallint[], interval[], timestamptz[], smallint[], text[], json[], text[], json[]) from public;

-- The rule of a unique job that SQL enqueues. Null without `by`.
create function jobs.unique_rule(kind text, args json, by text[], within interval, until text, on_conflict text) returns json
language plpgsql immutable
as $$
declare
    key text;
begin
    if by is null then
        if within is not null or until is not null or on_conflict is not null then
            raise exception 'jobs.enqueue: job % has `unique_within`, `unique_until` or `on_conflict`, and no `unique_by`', unique_rule.kind using errcode = '22023';
        end if;
        return null;
    end if;
    if coalesce(until, 'finished') not in ('started', 'finished') or coalesce(on_conflict, 'keep') not in ('keep', 'error', 'replace') then
        raise exception 'jobs.enqueue: `unique_until` of job % is started or finished, and `on_conflict` is keep, replace or error', unique_rule.kind
            using errcode = '22023';
    end if;
    if within <= interval '0' or within > interval '100 years' then
        raise exception 'jobs.enqueue: `unique_within` of job % must be longer than 0 and at most a hundred years', unique_rule.kind using errcode = '22023';
    end if;
    key := case cardinality(by) when 0 then 'sha256:' || encode(sha256(convert_to(jobs.canonical(unique_rule.args), 'UTF8')), 'hex')
                else jobs.flow(unique_rule.kind, unique_rule.args, 1, by, null, null) ->> 'key' end;
    return json_build_object(
        'name', regexp_replace(unique_rule.kind, '\.v[0-9]+$', ''), 'key', key, 'started', coalesce(until = 'started', false),
        'within', extract(epoch from within), 'error', coalesce(on_conflict = 'error', false), 'args', coalesce(on_conflict = 'replace', false),
        'run_at', coalesce(on_conflict = 'replace', false), 'priority', coalesce(on_conflict = 'replace', false), 'quiet', null, 'max', null
    );
end
$$;

-- It has more parameters.
drop function jobs.enqueue(text, json, text, integer, timestamptz, integer, text[]);

-- Enqueues a job from SQL, psql or a trigger. Returns its id. With `concurrency`, at most so many jobs of the same limit and key
-- run at once. The limit has the name `limit_name`, or that of the kind without the version of its arguments. The key are the arguments that `by` names.
-- With `sequence`, they run one after the other, in the order of their ids: 'halt' or 'skip' says what happens when the job is discarded.
-- With `rate` and `per`, so many start in this time, and at most `burst` at once after a quiet time.
-- With `unique_by`, the arguments that it names are a unique key, or all arguments if it is '{}'. If another job has the key, `on_conflict` decides:
-- keep (the id of that job is returned), replace (its arguments, time and priority, if it waits) or error.
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
    burst integer default null
) returns bigint
language plpgsql volatile
as $$
declare
    new_id bigint;
    flow json;
    rule json;
    taken record;
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
    flow := jobs.flow(enqueue.kind, enqueue.args, enqueue.concurrency, enqueue.by, enqueue.limit_name, enqueue.sequence, enqueue.rate, enqueue.per, enqueue.burst);
    rule := jobs.unique_rule(enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.unique_by, enqueue.unique_within, enqueue.unique_until, enqueue.on_conflict);
    if rule is not null then
        select t.id, t.outcome into taken from jobs.enqueue_unique_one(
            rule, enqueue.kind, enqueue.queue, enqueue.priority::smallint, greatest(enqueue.run_at, clock_timestamp()),
            enqueue.max_attempts::smallint, enqueue.tags, coalesce(enqueue.args, '{}'), null, flow
        ) t;
        if taken.outcome = 3 then
            raise exception 'jobs.enqueue: job % has the unique key % of job % already', taken.id, rule ->> 'key', enqueue.kind using errcode = 'JU001';
        end if;
        return taken.id;
    end if;
    if flow is not null then
        insert into jobs.held as h (kind, args, queue, priority, run_at, max_attempts, tags, flow, limit_name, limit_key, most, flags, later)
        values (
            enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.queue, enqueue.priority::smallint,
            greatest(enqueue.run_at, clock_timestamp()), enqueue.max_attempts::smallint, enqueue.tags,
            flow, flow ->> 'limit', flow ->> 'key', (flow ->> 'most')::integer, jobs.flow_flags(flow),
            coalesce(enqueue.run_at > clock_timestamp(), false)
        )
        returning h.id into new_id;
        insert into jobs.nudge (limit_name, limit_key) values (flow ->> 'limit', flow ->> 'key');
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

-- As before. A job with a limit keeps it.
create or replace function jobs.put_back(number bigint) returns bigint
language plpgsql volatile
as $$
declare
    letter jobs.dead_letter;
    arguments json;
    labels text[];
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
    if json_typeof(letter.job -> 'flow') = 'object' then
        insert into jobs.held as h (kind, args, queue, priority, max_attempts, tags, flow, limit_name, limit_key, most, flags)
        values (
            letter.kind, coalesce(arguments, '{}'), letter.queue, (letter.job ->> 'priority')::smallint,
            greatest((letter.job ->> 'max_attempts')::smallint, 1::smallint), labels,
            letter.job -> 'flow', letter.job -> 'flow' ->> 'limit', letter.job -> 'flow' ->> 'key', (letter.job -> 'flow' ->> 'most')::integer,
            jobs.flow_flags(letter.job -> 'flow')
        )
        returning h.id into new_id;
        insert into jobs.nudge (limit_name, limit_key) values (letter.job -> 'flow' ->> 'limit', letter.job -> 'flow' ->> 'key');
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

insert into jobs.schema_migration (version, name, oldest_program) values (5, 'flow_control', 1);
