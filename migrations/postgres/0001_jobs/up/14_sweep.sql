-- The search for keys and expired jobs that no nudge names.

-- A part of a sweep: deletes the turns of keys that have neither jobs with tenants nor permits. The next job begins again.
create function jobs.sweep_turns() returns void
language plpgsql volatile
as $$
declare
    most_turns constant integer := 500;
    next_name text;
    next_key text;
begin
    if not exists (select from jobs.fair_turn) then
        return;
    end if;
    with seen as materialized (
        select t.ctid, t.limit_name, t.limit_key from jobs.fair_turn t
        where (t.limit_name, t.limit_key) > (select a.after_turn, a.after_turn_key from jobs.admission a)
        order by t.limit_name, t.limit_key limit most_turns
    ), gone as (
        delete from jobs.fair_turn where ctid = any(array(
            select s.ctid from seen s
            where not exists (select from jobs.permit where permit.limit_name = s.limit_name and permit.limit_key = s.limit_key offset 0)
              and not exists (
                  select from jobs.held h where not h.later and not h.paused and h.flags & 256 <> 0
                    and h.limit_name = s.limit_name and h.limit_key = s.limit_key offset 0
              )
        ))
    )
    select s.limit_name, s.limit_key into next_name, next_key from seen s order by s.limit_name, s.limit_key offset most_turns - 1;
    update jobs.admission set after_turn = coalesce(next_name, ''), after_turn_key = coalesce(next_key, '');
end
$$;

-- A part of jobs.admit: what a sweep does in addition. It nudges keys that have no nudge although a job of them may start. Returns whether
-- the next pass should sweep at once. With 0 as `most_keys` it finds nothing and locks no row.
create function jobs.sweep(paused_queues text[], paused_kinds text[], most_keys integer default 1000) returns boolean
language plpgsql volatile
as $$
declare
    most_jobs constant integer := 5 * most_keys;
    most_permits constant integer := most_keys / 2;
    moment constant timestamptz := clock_timestamp();
    place jobs.admission;
    more boolean;
    next_name text;
    next_key text;
    next_sequence text;
    next_sequence_key text;
    next_rate text;
    next_rate_key text;
    next_permit bigint;
    found_keys bigint;
begin
    select * into place from jobs.admission;

    -- Jobs that have become due.
    with due as (
        update jobs.held set later = false where ctid = any(array(
            select h.ctid from jobs.held h where h.later and h.run_at <= moment order by h.run_at, h.id limit most_jobs for no key update skip locked
        ))
        returning limit_name, limit_key, ~priority as place, run_at
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, place, run_at)
        select d.limit_name, d.limit_key, min(d.place), min(d.run_at::timestamptz) from due d group by d.limit_name, d.limit_key
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
            returning limit_name, limit_key, ~priority as place, run_at
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key, place, run_at)
            select r.limit_name, r.limit_key, min(r.place), min(r.run_at::timestamptz) from resumed r group by r.limit_name, r.limit_key
        )
        select more or count(*) = most_jobs into more from resumed;
    end if;

    -- The next keys with a free permit and a job for it.
    with recursive key (name, value, number) as (
        (select h.limit_name, h.limit_key, 1 from jobs.held h
         where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (place.after_name, place.after_key)
         order by h.limit_name, h.limit_key limit least(most_keys, 1))
        union all
        select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
            select h.limit_name, h.limit_key from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
            order by h.limit_name, h.limit_key limit 1
        ) next
        where key.number < most_keys
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, place, run_at)
        select key.name, key.value, head.place, head.run_at from key cross join lateral (
            select h.most, ~h.priority as place, h.run_at from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
            order by ~h.priority, h.run_at, h.id limit 1
        ) head
        where (select count(*) from jobs.permit s where s.limit_name = key.name and s.limit_key = key.value) < jobs.allowed(key.name, head.most)
          and (key.name <> '' or not jobs.waits_at_limit(key.value))
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
             order by h.limit_name, h.limit_key limit least(most_keys, 1))
            union all
            select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
                select h.limit_name, h.limit_key from jobs.held h
                where h.flags & 4 <> 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
                order by h.limit_name, h.limit_key limit 1
            ) next
            where key.number < most_keys
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key)
            select key.name, key.value from key cross join lateral jobs.next_in_sequence(key.name, key.value) next
            where exists (select from jobs.held h where h.id = next.id and not h.later and not h.paused)
            returning true
        ), last as (
            select key.name, key.value from key where key.number = most_keys
        )
        select (select l.name from last l), (select l.value from last l), count(*) into next_sequence, next_sequence_key, found_keys from nudged;
        more := more or next_sequence is not null and found_keys > 0;
    end if;

    -- The same for the next keys with a rate. Those that wait for a token have a time at which a pass looks at them, but not below their floor.
    if exists (select from jobs.held where not later and not paused and flags & 8 <> 0) then
        with recursive key (name, value, number) as (
            (select h.limit_name, h.limit_key, 1 from jobs.held h
             where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (place.after_rate, place.after_rate_key)
             order by h.limit_name, h.limit_key limit least(most_keys, 1))
            union all
            select next.limit_name, next.limit_key, key.number + 1 from key cross join lateral (
                select h.limit_name, h.limit_key from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (key.name, key.value)
                order by h.limit_name, h.limit_key limit 1
            ) next
            where key.number < most_keys
        ), nudged as (
            insert into jobs.nudge (limit_name, limit_key, place, run_at)
            select key.name, key.value, head.place, head.run_at from key cross join lateral (
                select ~h.priority as place, h.run_at, h.id from jobs.held h
                where not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
                order by ~h.priority, h.run_at, h.id limit 1
            ) head
            where not exists (
                select from jobs.rate r where r.limit_name = key.name and r.limit_key = key.value and r.next_at is not null
                  and (r.place, r.run_at, r.id) <= (head.place, head.run_at, head.id)
            )
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

    if most_keys > 0 then
        perform jobs.sweep_turns();
    end if;

    -- Permits without a job. A person has deleted the job, without the permit.
    with seen as materialized (
        select s.job_id, s.limit_name, s.limit_key from jobs.permit s where s.job_id > place.after_permit order by s.job_id limit most_permits
    ), gone as (
        -- An array, because a join may look for each job once for each permit.
        delete from jobs.permit s where s.halted_at is null and s.job_id = any(array(
            select seen.job_id from seen
            where not exists (select from jobs.ready where id = seen.job_id offset 0)
              and not exists (select from jobs.running where id = seen.job_id offset 0)
              and not exists (select from jobs.held where id = seen.job_id offset 0)
        ))
        returning s.limit_name, s.limit_key
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, run_at) select distinct g.limit_name, g.limit_key, null::timestamptz from gone g
    )
    select case count(*) when most_permits then max(seen.job_id) else 0 end into next_permit from seen;

    update jobs.admission set after_name = coalesce(next_name, ''), after_key = coalesce(next_key, ''), after_permit = next_permit,
        after_sequence = coalesce(next_sequence, ''), after_sequence_key = coalesce(next_sequence_key, ''),
        after_rate = coalesce(next_rate, ''), after_rate_key = coalesce(next_rate_key, '')
    where most_keys > 0;
    return more;
end
$$;
