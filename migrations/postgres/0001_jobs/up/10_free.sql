-- Which held jobs may start: a function for limits, one for sequences and one for rates.

-- The held job whose turn it is in a sequence: the one that has the permit, because it waits for its next attempt or was retried, else the one
-- with the lowest id. Null while another job has the permit.
create function jobs.next_in_sequence(name text, key text) returns bigint
language sql stable
as $$
    select case when exists (select from jobs.permit s where s.limit_name = name and s.limit_key = key)
        then (select s.job_id from jobs.permit s where s.limit_name = name and s.limit_key = key
              and exists (select from jobs.held h where h.id = s.job_id and h.flags & 4 <> 0 offset 0) limit 1)
        else (select h.id from jobs.held h where h.flags & 4 <> 0 and h.limit_name = name and h.limit_key = key order by h.id limit 1)
    end
$$;

-- A part of jobs.admit, which the planner inserts into its statements. Returns the first held job of each of these keys, and how many permits of the
-- key are free. It begins to read at the floors. `has_floor`: the key has a floor. `first_permit`: the number of the first permit of the key.
create function jobs.heads(names text[], keys text[], floors json)
returns table (name text, key text, tuple tid, place smallint, run_at timestamptz, id bigint, first_permit bigint, free bigint, has_floor boolean)
language sql stable
as $$
    with head as materialized (
        select wanted.name, wanted.key, first.ctid, first.place, first.run_at, first.id, first.most, coalesce(f.first_permit, 0) as first_permit, f.name is not null as has_floor
        from unnest(names, keys) as wanted (name, key)
        left join json_to_recordset(floors) as f (name text, key text, place smallint, run_at timestamptz, id bigint, first_permit bigint)
            on f.name = wanted.name and f.key = wanted.key
        cross join lateral (
            select h.ctid, ~h.priority as place, h.run_at::timestamptz as run_at, h.id, h.most from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = wanted.name and h.limit_key = wanted.key
              and (~h.priority, h.run_at, h.id) >= (coalesce(f.place, (-32768)::smallint), coalesce(f.run_at, '-infinity'), coalesce(f.id, 0))
            order by ~h.priority, h.run_at, h.id limit 1
        ) first
    )
    -- What operators have set is read once for all keys. It is what jobs.allowed says.
    select head.name, head.key, head.ctid, head.place, head.run_at, head.id, taken.first,
           coalesce(((select json_object_agg(s.name, s.most) from jobs.limit_setting s) ->> head.name)::integer, head.most) - taken.number, head.has_floor
    from head cross join lateral (
        select count(*) as number, min(s.number) as first from jobs.permit s
        where s.limit_name = head.name and s.limit_key = head.key and s.number >= head.first_permit
    ) taken
$$;

-- A part of jobs.admit: locks held jobs of these keys, as many as have a free permit, and returns their places in the table. If queues
-- or kinds are paused, it examines few jobs more than there are free permits. Those that are paused leave the order of admission first.
-- `seen`: where the next pass may begin to read, for the keys with a floor, and for some of the keys from which it takes jobs. One in
-- `jobs_per_floor` jobs gives its key a floor. So keys from which many jobs were taken get a floor, and nothing is written for the others.
create function jobs.free_jobs(
    names text[], keys text[], floors json, paused_queues text[], paused_kinds text[], most_jobs integer,
    out places tid[], out goes_on boolean, out seen json, out writes_floors boolean
)
language plpgsql volatile
as $$
declare
    most_ahead constant integer := 500;
    jobs_per_floor constant float8 := 100;
    pauses constant boolean := cardinality(paused_queues) + cardinality(paused_kinds) > 0;
begin
    goes_on := false;
    if pauses then
        with found as materialized (
            select front.ctid from jobs.heads(names, keys, floors) head cross join lateral (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = head.name and h.limit_key = head.key
                  and (~h.priority, h.run_at, h.id) >= (head.place, head.run_at, head.id)
                order by ~h.priority, h.run_at, h.id limit most_ahead
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
            insert into jobs.nudge (limit_name, limit_key, run_at) select distinct p.limit_name, p.limit_key, null::timestamptz from parted p
        )
        select count(*) > 0 into goes_on from parted;
    end if;

    with head as materialized (
        -- Finishes pass permits on without a pass, but not to these jobs (`pass_on.rs`). So they come from keys from which many jobs are taken.
        select h.*, random() < case when h.id % 256 = 0 then 0.5 else h.free / jobs_per_floor end as writes from jobs.heads(names, keys, floors) h
    ), picked as (
        select pick.ctid from head cross join lateral (
            -- The first one is known. Most keys have one free permit, and then no second search begins.
            select first.ctid from (
                select h.ctid from jobs.held h
                where h.ctid = head.tuple and not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = head.name and h.limit_key = head.key
                for update skip locked
            ) first
            union all
            select next.ctid from (
                select h.ctid from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = head.name and h.limit_key = head.key
                  and (~h.priority, h.run_at, h.id) > (head.place, head.run_at, head.id)
                order by ~h.priority, h.run_at, h.id limit greatest(head.free, 0)
                for update skip locked
            ) next
            limit greatest(head.free, 0)
        ) pick
        where not pauses
        union all
        select pick.ctid from head cross join lateral (
            select h.ctid from jobs.held h
            where h.ctid = any(array(
                select front.ctid from jobs.held front
                where not front.later and not front.paused and front.flags & 12 = 0 and front.limit_name = head.name and front.limit_key = head.key
                  and (~front.priority, front.run_at, front.id) >= (head.place, head.run_at, head.id)
                order by ~front.priority, front.run_at, front.id limit greatest(head.free, 0) + most_ahead
            )) and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            order by ~h.priority, h.run_at, h.id
            limit greatest(head.free, 0)
            for update skip locked
        ) pick
        where pauses
    )
    select array(select p.ctid from picked p limit most_jobs),
           (select json_agg(json_build_object('name', s.name, 'key', s.key, 'place', s.place, 'run_at', s.run_at, 'id', s.id, 'first_permit', s.first_permit))
            from head s where s.has_floor or s.writes),
           exists (select from head s where s.writes)
    into places, seen, writes_floors;
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

-- The tokens of a key with this rate, at this time. The tokens come at equal intervals (GCRA). All times are in microseconds. `every` is the time
-- between two tokens, rounded up, and `lack` the time until the key has all of them. It is at most that of an empty key, because the clock may have been
-- set back, or the job may come with another rate. `next_lack`: at this lack, the next pass should look at the key. If tokens come fast, it then takes
-- several at once: at most a quarter of those that the key can have, and those of 20 ms. `Bucket` in `jobs-core/src/rules` computes the same for SQLite, and
-- `bucket/cases.json` is tested against both. The planner inserts it into the statements that call it.
create function jobs.bucket(rule json, full_at timestamptz, at timestamptz) returns table (every bigint, lack bigint, tokens bigint, next_lack bigint)
language sql immutable
as $$
    select rate.every, lack.us, (rate.burst * rate.every - lack.us) / rate.every,
           (rate.burst - least(greatest(rate.burst / 4, 1), greatest(20000 / rate.every, 1))) * rate.every
    from (
        select (rule #>> '{rule,rate,burst}')::bigint as burst,
               ((rule #>> '{rule,rate,per}')::bigint + (rule #>> '{rule,rate,limit}')::bigint - 1) / (rule #>> '{rule,rate,limit}')::bigint as every
    ) rate cross join lateral (
        select least(greatest(0, coalesce((extract(epoch from full_at - at) * 1000000)::bigint, 0)), rate.burst * rate.every) as us
    ) lack
$$;

-- A part of jobs.admit: the same for rates. It locks and returns the places of as many jobs as there are tokens, and spends the tokens.
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
        select key.name, key.value, b.* from unnest(names, keys) as key (name, value) cross join lateral (
            select case when h.flags & 128 = 0 then h.rules -> 0 else jobs.rule_of(h.rules, h.limit_name) end as rule from jobs.held h
            where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
            order by h.priority desc, h.run_at, h.id limit 1
        ) head
        left join jobs.rate r on r.limit_name = key.name and r.limit_key = key.value
        cross join lateral jobs.bucket(head.rule, r.full_at, moment) b
    ), counted as materialized (
        select bucket.*, (
                   select count(*) from (
                       select from jobs.held h
                       where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = bucket.name and h.limit_key = bucket.value
                       limit bucket.tokens + 1
                   ) job
               ) as jobs
        from bucket
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
                    then moment + (left_over.lack - p.next_lack) * microsecond end
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
