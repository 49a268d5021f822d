-- Which held jobs may start: a function for limits, one for sequences and one for rates.

-- The held job whose turn it is in a sequence: the one that has the permit, because it waits for its next attempt or was retried, else the one
-- with the lowest id. Null while another job has the permit. No row if no job of the sequence is held. `turn`: there is no job with a lower id.
-- `first_permit`: there is no permit with a lower number. The planner inserts it into the statements that call it.
create function jobs.next_in_sequence(name text, key text, turn bigint default 0, first_permit bigint default 0)
returns table (id bigint, is_first boolean)
language sql stable
as $$
    select case when is_taken.it then (select s.job_id from jobs.permit s where s.limit_name = name and s.limit_key = key and s.number >= first_permit
               and exists (select from jobs.held h where h.id = s.job_id and h.flags & 4 <> 0 offset 0) limit 1)
           else first.id end, not is_taken.it
    from (
        select h.id from jobs.held h where h.flags & 4 <> 0 and h.limit_name = name and h.limit_key = key and h.id >= turn order by h.id limit 1
    ) first cross join lateral (
        select exists (select from jobs.permit s where s.limit_name = name and s.limit_key = key and s.number >= first_permit) as it
    ) is_taken
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

-- A part of jobs.admit: the same for sequences. Returns the place of the next job of each, if it may start now. `turn` of a floor is the id below which
-- the sequence has no job. It holds until an enqueue that began before `turn_at` commits: such a job may have a lower id.
create function jobs.free_in_sequence(
    names text[], keys text[], floors json, paused_queues text[], paused_kinds text[], out places tid[], out seen json, out writes_floors boolean
)
language plpgsql volatile
as $$
declare
    jobs_per_floor constant float8 := 100;
begin
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        -- A sweep finds it after the resume.
        update jobs.held set paused = true where ctid = any(array(
            select h.ctid from unnest(names, keys) as key (name, value)
            left join json_to_recordset(floors) as f (name text, key text, turn bigint, first_permit bigint) on f.name = key.name and f.key = key.value
            cross join lateral jobs.next_in_sequence(key.name, key.value, coalesce(f.turn, 0), coalesce(f.first_permit, 0)) next
            cross join lateral (
                select h.ctid from jobs.held h where h.id = next.id and h.flags & 4 <> 0 and not h.paused
                  and (h.queue = any(paused_queues) or h.kind = any(paused_kinds))
                for no key update skip locked
            ) h
        ));
    end if;
    with next as materialized (
        select key.name, key.value, next.id, next.is_first and f.turn is not null as has_floor, next.is_first and random() < 1 / jobs_per_floor as writes
        from unnest(names, keys) as key (name, value)
        left join json_to_recordset(floors) as f (name text, key text, turn bigint, first_permit bigint) on f.name = key.name and f.key = key.value
        cross join lateral jobs.next_in_sequence(key.name, key.value, coalesce(f.turn, 0), coalesce(f.first_permit, 0)) next
    )
    select array(
               select pick.ctid from next cross join lateral (
                   select h.ctid from jobs.held h where h.id = next.id and h.flags & 4 <> 0 and not h.later and not h.paused
                     and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
                   for update skip locked
               ) pick
           ),
           (select json_agg(json_build_object('name', s.name, 'key', s.value, 'turn', s.id, 'turn_at', clock_timestamp()))
            from next s where s.has_floor or s.writes),
           exists (select from next s where s.writes)
    into places, seen, writes_floors;
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
-- `nudged_places` and `nudged_times` have elements for these keys: where a job has come that may be below the floor. `next_at`: the earliest time when
-- one of these keys is to be looked at again.
create function jobs.free_in_rate(
    names text[], keys text[], nudged_places smallint[], nudged_times timestamptz[], paused_queues text[], paused_kinds text[], most_jobs integer,
    out places tid[], out goes_on boolean, out next_at timestamptz
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    most_ahead constant integer := 500;
    moment constant timestamptz := clock_timestamp();
    microsecond constant interval := interval '1 microsecond';
begin
    goes_on := false;
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        with found as materialized (
            -- From the floor on, unless a job may have come below it.
            select front.ctid from unnest(names, keys, nudged_places, nudged_times) as key (name, value, place, run_at)
            left join lateral (
                select r.place, r.run_at, r.id from jobs.rate r
                where r.limit_name = key.name and r.limit_key = key.value order by r.written_at desc limit 1
            ) r on coalesce((key.place, key.run_at) > (r.place, r.run_at), true)
            cross join lateral (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
                  and (~h.priority, h.run_at, h.id) >= (coalesce(r.place, (-32768)::smallint), coalesce(r.run_at, '-infinity'), coalesce(r.id, 0))
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

    with floor as materialized (
        -- Where it begins to read.
        select key.name, key.value, r.*, case when low.is_new then -32768 when low.is_lower then key.place else r.place end::smallint as low_place,
               case when low.is_new then '-infinity' when low.is_lower then key.run_at else r.run_at end as low_run_at,
               case when low.is_new or low.is_lower then 0 else r.id end as low_id
        from unnest(names, keys, nudged_places, nudged_times) as key (name, value, place, run_at)
        left join lateral (
            select r.ctid as tuple, r.written_at, r.full_at, r.next_at, r.place, r.run_at, r.id from jobs.rate r
            where r.limit_name = key.name and r.limit_key = key.value order by r.written_at desc limit 1
        ) r on true
        cross join lateral (select r.tuple is null as is_new, (key.place, key.run_at) <= (r.place, r.run_at) as is_lower) low
        where key.name is not null
    ), bucket as materialized (
        select floor.*, head.place as head_place, head.run_at as head_run_at, head.id as head_id, b.* from floor
        left join lateral (
            select case when h.flags & 128 = 0 then h.rules -> 0 else jobs.rule_of(h.rules, h.limit_name) end as rule,
                   ~h.priority as place, h.run_at::timestamptz as run_at, h.id
            from jobs.held h
            where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = floor.name and h.limit_key = floor.value
              and (~h.priority, h.run_at, h.id) >= (floor.low_place, floor.low_run_at, floor.low_id)
            order by ~h.priority, h.run_at, h.id limit 1
        ) head on true
        cross join lateral jobs.bucket(head.rule, floor.full_at, moment) b
        -- One without a job does not wait any more.
        where head.id is not null or floor.next_at is not null
    ), counted as materialized (
        select bucket.*, (
                   select count(*) from (
                       select from jobs.held h
                       where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = bucket.name and h.limit_key = bucket.value
                         and (~h.priority, h.run_at, h.id) >= (bucket.head_place, bucket.head_run_at, bucket.head_id)
                       order by ~h.priority, h.run_at, h.id limit bucket.tokens + 1
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
                  and (~front.priority, front.run_at, front.id) >= (free.head_place, free.head_run_at, free.head_id)
                order by ~front.priority, front.run_at, front.id limit free.number
            )) and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            for update skip locked
        ) as places
        from free
    ), later as materialized (
        select p.*, coalesce(moment + left_over.lack * microsecond, p.full_at) as later_full_at,
               case when p.number < least(p.tokens, p.jobs) then moment
                    -- A later sweep takes what was skipped.
                    when p.jobs > p.tokens and cardinality(p.places) = p.number
                    then moment + (left_over.lack - p.next_lack) * microsecond end as later_next_at
        from picked p cross join lateral (select p.lack + cardinality(p.places) * p.every as lack) left_over
    ), written as materialized (
        select l.* from later l
        where l.places <> '{}' or l.later_next_at is distinct from l.next_at or l.later_full_at <> l.full_at
           or (l.head_place, l.head_run_at, l.head_id) < (l.place, l.run_at, l.id)
    ), replaced as (
        delete from jobs.rate where ctid = any(array(select w.tuple from written w where w.tuple is not null))
    ), spent as (
        insert into jobs.rate (limit_name, limit_key, written_at, full_at, next_at, place, run_at, id)
        select w.name, w.value, greatest(moment, w.written_at + microsecond), w.later_full_at, w.later_next_at,
               coalesce(w.head_place, w.place), coalesce(w.head_run_at, w.run_at), coalesce(w.head_id, w.id)
        from written w
    )
    select array(select unnest(p.places) from picked p), goes_on or exists (select from picked p where p.number < least(p.tokens, p.jobs)),
           (select min(w.later_next_at) from written w)
    into places, goes_on, next_at;
end
$$;
