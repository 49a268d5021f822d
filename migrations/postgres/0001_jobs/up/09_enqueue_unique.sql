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
