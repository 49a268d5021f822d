-- Jobs with several rules, which wait in lanes.

-- Whether a job of the lane waits at one of its rules.
create function jobs.waits_at_limit(lane text) returns boolean
language sql stable
as $$
    select exists (
        select from jobs.held h where h.flags & 132 = 128 and h.limit_name <> '' and jobs.lane(h.rules) collate "C" = lane
          and not h.later and not h.paused
    )
$$;

-- When a held job may get its next token. Null if it does not wait for one. A job in a lane waits with the first one of its lane.
create function jobs.next_token_of(job jobs.held) returns timestamptz
language sql stable
as $$
    select case when job.limit_name = '' then (
        select r.next_at from jobs.held h join jobs.rate r on r.limit_name = h.limit_name and r.limit_key = h.limit_key
        where h.flags & 132 = 128 and h.limit_name <> '' and jobs.lane(h.rules) collate "C" = job.limit_key and h.flags & 8 <> 0
        limit 1
    ) when job.flags & 8 <> 0 then (
        select r.next_at from jobs.rate r where r.limit_name = job.limit_name and r.limit_key = job.limit_key
    ) end
$$;

-- The rules of a job without its sequence.
create function jobs.beside_sequence(rules json) returns setof json
language sql immutable
as $$
    select r from json_array_elements(rules) r where r #> '{rule,sequence}' is null
$$;

-- The tokens of a rate at this time.
create function jobs.tokens(rule json, at timestamptz) returns bigint
language sql stable
as $$
    select b.tokens from (select rule) one left join lateral (
        select r.full_at from jobs.rate r where r.limit_name = rule ->> 'name' and r.limit_key = rule ->> 'key' order by r.written_at desc limit 1
    ) r on true
    cross join lateral jobs.bucket(rule, r.full_at, at) b
$$;

-- Spends this many of these tokens. A negative number gives back those that the same pass has spent.
create function jobs.spend_tokens(rule json, number bigint, at timestamptz) returns void
language sql volatile
as $$
    with earlier as materialized (
        select r.ctid as tuple, r.* from jobs.rate r where r.limit_name = rule ->> 'name' and r.limit_key = rule ->> 'key' order by r.written_at desc limit 1
    ), replaced as (
        delete from jobs.rate where ctid = any(array(select e.tuple from earlier e))
    )
    insert into jobs.rate (limit_name, limit_key, written_at, full_at, next_at, place, run_at, id)
    select rule ->> 'name', rule ->> 'key', greatest(at, e.written_at + interval '1 microsecond'),
           greatest(e.full_at, at) + number * b.every * interval '1 microsecond', e.next_at,
           coalesce(e.place, (-32768)::smallint), coalesce(e.run_at, '-infinity'), coalesce(e.id, 0)
    from jobs.bucket(rule, null, at) b left join earlier e on true
$$;

-- How many jobs one of several rules allows to start at this time.
create function jobs.free_of(rule json, at timestamptz) returns bigint
language sql stable
as $$
    select case when rule #> '{rule,rate}' is not null then jobs.tokens(rule, at)
                else jobs.allowed(rule ->> 'name', (rule #>> '{rule,concurrency,most}')::integer)
                     - (select count(*) from jobs.permit s where s.limit_name = rule ->> 'name' and s.limit_key = rule ->> 'key') end
$$;

-- A part of jobs.admit: starts these jobs of one lane, and takes the permits and tokens of all their rules.
create function jobs.start_in_lane(places tid[], rules json, at timestamptz) returns bigint
language plpgsql volatile
as $$
begin
    insert into jobs.permit (job_id, limit_name, limit_key)
    select h.id, r ->> 'name', r ->> 'key' from jobs.held h cross join jobs.beside_sequence(start_in_lane.rules) r
    where h.ctid = any(places) and r #> '{rule,rate}' is null
    on conflict do nothing;
    perform jobs.spend_tokens(r, cardinality(places), at) from json_array_elements(start_in_lane.rules) r where r #> '{rule,rate}' is not null;
    return jobs.admit_held(places, false);
end
$$;

-- A part of jobs.admit: what happens to a held job that the database does not make available. If the reason is its content, it is set apart: a
-- constraint or a trigger refuses it, or its arguments were deleted. Other reasons may pass, such as a lock, a full disk or a missing grant. Then
-- the job waits, and the jobs behind it are admitted first. A job of a sequence keeps its place, so its sequence waits with it.
create function jobs.refuse(place tid, state text, message text, out set_apart bigint)
language plpgsql volatile
as $$
begin
    set_apart := 0;
    if left(state, 2) in ('22', '23', 'P0') then
        begin
            perform jobs.set_held_apart(place, message);
            set_apart := 1;
            return;
        exception when others then
            state := sqlstate;
            message := format('%s; and it cannot be set apart: %s', message, sqlerrm);
        end;
    end if;
    with put_off as (
        update jobs.held h set later = true, run_at = jobs.note_failure(h.limit_name, h.limit_key, h.id, state, message) where h.ctid = place
        returning h.limit_name, h.limit_key
    )
    -- The next pass looks at the jobs behind it.
    insert into jobs.nudge (limit_name, limit_key, run_at) select p.limit_name, p.limit_key, null from put_off p;
end
$$;

-- A part of jobs.admit: makes these jobs of one key available one by one, so that each can fail alone. `spends`: jobs.free_in_rate has spent a token
-- for each. `checks`: it also checks deferred constraints at once, which would otherwise fail with the commit of the whole pass. `until`: after this
-- time it leaves the others to the next pass, because each of them may wait for a lock. It tries at least one.
create function jobs.admit_each(
    places tid[], spends boolean, checks boolean, until timestamptz, out admitted bigint, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    held jobs.held;
    number bigint;
    state text;
    message text;
begin
    admitted := 0; set_apart := 0;
    for place in 1 .. cardinality(places) loop
        if place > 1 and clock_timestamp() > until then
            select * into held from jobs.held h where h.ctid = places[place];
            if spends then
                perform jobs.spend_tokens(held.rules -> 0, place - 1 - cardinality(places), clock_timestamp());
            end if;
            insert into jobs.nudge (limit_name, limit_key, run_at) values (held.limit_name, held.limit_key, null);
            return;
        end if;
        begin
            number := jobs.admit_held(places[place:place], true);
            if checks then
                set constraints all immediate;
            end if;
            admitted := admitted + number;
        exception when others then
            state := sqlstate;
            message := sqlerrm;
            select * into held from jobs.held h where h.ctid = places[place];
            set_apart := set_apart + (select r.set_apart from jobs.refuse(places[place], state, message) r);
            if spends then
                perform jobs.spend_tokens(held.rules -> 0, -1, clock_timestamp());
            end if;
        end;
    end loop;
end
$$;

-- A part of jobs.admit: the same for one job of a lane.
create function jobs.start_or_refuse(place tid, rules json, at timestamptz, out started bigint, out set_apart bigint)
language plpgsql volatile
as $$
declare
    state text;
    message text;
begin
    started := 0; set_apart := 0;
    started := jobs.start_in_lane(array[place], rules, at);
exception when others then
    state := sqlstate;
    message := sqlerrm;
    started := 0;
    set_apart := (select r.set_apart from jobs.refuse(place, state, message) r);
end
$$;

-- A part of jobs.admit: lets a job of a lane wait at one of its rules, which does not allow it. Who frees something there nudges its key. So does this
-- function, because the job is new there: the next look finds the time of the next token.
create function jobs.wait_at(place tid, rule json) returns void
language plpgsql volatile
as $$
begin
    update jobs.held set limit_name = rule ->> 'name', limit_key = rule ->> 'key',
        most = coalesce(rule #>> '{rule,concurrency,most}', rule #>> '{rule,rate,limit}')::integer,
        flags = flags & ~12 | case when rule #> '{rule,rate}' is null then 0 else 8 end
    where ctid = place;
    insert into jobs.nudge (limit_name, limit_key) values (rule ->> 'name', rule ->> 'key');
end
$$;

-- A part of jobs.admit: starts as many jobs of a lane as all their rules allow. The next job then waits at a rule that does not allow it. Jobs of a
-- lane have the same rules and keys, so the others need not be examined before this one has started. A full limit costs one check, however
-- many jobs wait. `until`: after this time it leaves the others to the next pass.
create function jobs.free_in_lane(
    lane text, paused_queues text[], paused_kinds text[], most_jobs bigint, at timestamptz, one_by_one boolean, until timestamptz,
    out admitted bigint, out goes_on boolean, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    most_ahead constant integer := 500;
    first json;
    number bigint;
    tried bigint := 0;
    places tid[];
    one record;
begin
    admitted := 0; goes_on := false; set_apart := 0;
    if jobs.waits_at_limit(lane) then
        return;
    end if;
    if cardinality(paused_queues) + cardinality(paused_kinds) > 0 then
        -- The next pass looks at the jobs behind them.
        update jobs.held set paused = true where ctid = any(array(
            select front.ctid from (
                select h.ctid, h.queue, h.kind from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = lane
                order by ~h.priority, h.run_at, h.id limit most_ahead for no key update skip locked
            ) front
            where front.queue = any(paused_queues) or front.kind = any(paused_kinds)
        ));
        if found then
            insert into jobs.nudge (limit_name, limit_key) values ('', lane);
            goes_on := true;
            return;
        end if;
    end if;
    loop
        select h.rules into first from jobs.held h
        where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = lane
        order by ~h.priority, h.run_at, h.id limit 1;
        exit when not found;
        -- So many jobs, also if they cannot start, are for another pass, too.
        if greatest(admitted, tried) >= most_jobs or tried > 0 and clock_timestamp() > until then
            insert into jobs.nudge (limit_name, limit_key, run_at) values ('', lane, null);
            goes_on := true;
            return;
        end if;
        tried := tried + 1;
        select least(min(jobs.free_of(r, at)), case when one_by_one then 1 else most_jobs - admitted end) into number from jobs.beside_sequence(first) r;
        places := array(
            select h.ctid from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = lane
            order by ~h.priority, h.run_at, h.id limit greatest(number, 1) for update skip locked
        );
        -- A later sweep takes what was skipped.
        exit when cardinality(places) = 0;
        if number <= 0 then
            perform jobs.wait_at(places[1], jobs.full_rule(first, at));
            goes_on := jobs.full_rule(first, at) #> '{rule,rate}' is not null;
            return;
        end if;
        if one_by_one then
            select s.started, s.set_apart into one from jobs.start_or_refuse(places[1], first, at) s;
            admitted := admitted + one.started;
            set_apart := set_apart + one.set_apart;
        else
            admitted := admitted + jobs.start_in_lane(places, first, at);
        end if;
    end loop;
end
$$;

-- The first of several rules that allows no job to start at this time.
create function jobs.full_rule(rules json, at timestamptz) returns json
language sql stable
as $$
    select r from jobs.beside_sequence(rules) with ordinality as each (r, place) where jobs.free_of(r, at) <= 0 order by place limit 1
$$;

-- A part of jobs.admit: jobs with several rules. `places` are those whose turn it is, and those that wait at a limit which is not full any
-- more. It starts a job only if all its rules allow it, and then takes everything at once: no permit is taken by a job that waits elsewhere.
-- Only a sequence keeps its permit: its next job must not overtake this one. `until`: after this time it leaves the others to the next pass.
create function jobs.admit_several(
    places tid[], names text[], keys text[], paused_queues text[], paused_kinds text[], most_jobs bigint, one_by_one boolean, until timestamptz,
    out admitted bigint, out goes_on boolean, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    at constant timestamptz := clock_timestamp();
    lanes text[] := array(select key.value from unnest(names, keys) as key (name, value) where key.name = '');
    late_names text[] := '{}';
    late_keys text[] := '{}';
    tried bigint := 0;
    job record;
    rule json;
    lane text;
    one record;
begin
    admitted := 0; goes_on := false; set_apart := 0;
    for job in
        select h.ctid as place, h.id, h.flags, h.rules, h.limit_name, h.limit_key from jobs.held h
        where h.ctid = any(places) and h.limit_name <> '' order by h.priority desc, h.run_at, h.id
    loop
        lane := jobs.lane(job.rules);
        if job.flags & 4 <> 0 then
            -- Its turn has come.
            lanes := lanes || lane;
            insert into jobs.permit as s (job_id, limit_name, limit_key) values (job.id, job.limit_name, job.limit_key)
            on conflict (job_id, limit_name) do update set halted_at = null where s.halted_at is not null;
            update jobs.held set limit_name = '', limit_key = lane, most = 1, flags = flags & ~4 where ctid = job.place;
            continue;
        end if;
        if job.flags & 8 <> 0 then
            -- jobs.free_in_rate has spent it.
            perform jobs.spend_tokens(jobs.rule_of(job.rules, job.limit_name), -1, at);
        end if;
        if tried > 0 and clock_timestamp() > until then
            late_names := late_names || job.limit_name;
            late_keys := late_keys || job.limit_key;
            continue;
        end if;
        tried := tried + 1;
        lanes := lanes || lane;
        rule := jobs.full_rule(job.rules, at);
        if rule is null and one_by_one then
            select s.started, s.set_apart into one from jobs.start_or_refuse(job.place, job.rules, at) s;
            admitted := admitted + one.started;
            set_apart := set_apart + one.set_apart;
        elsif rule is null then
            admitted := admitted + jobs.start_in_lane(array[job.place], job.rules, at);
        elsif rule ->> 'name' <> job.limit_name or job.flags & 8 <> 0 then
            perform jobs.wait_at(job.place, rule);
            -- The jobs behind it.
            insert into jobs.nudge (limit_name, limit_key) values (job.limit_name, job.limit_key);
            goes_on := true;
        end if;
    end loop;
    for lane in
        select each.lane from (select distinct u.lane from unnest(lanes) as u (lane)) each cross join lateral (
            select h.priority, h.run_at, h.id from jobs.held h
            where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = '' and h.limit_key = each.lane
            order by ~h.priority, h.run_at, h.id limit 1
        ) first
        order by first.priority desc, first.run_at, first.id
    loop
        if tried > 0 and clock_timestamp() > until then
            late_names := late_names || ''::text;
            late_keys := late_keys || lane;
            continue;
        end if;
        tried := tried + 1;
        select f.admitted, f.goes_on, f.set_apart into one
        from jobs.free_in_lane(lane, paused_queues, paused_kinds, most_jobs - admitted, at, one_by_one, until) f;
        admitted := admitted + one.admitted;
        goes_on := goes_on or one.goes_on;
        set_apart := set_apart + one.set_apart;
    end loop;
    if late_names <> '{}' then
        insert into jobs.nudge (limit_name, limit_key, run_at)
        select distinct late.name, late.key, null::timestamptz from unnest(late_names, late_keys) as late (name, key);
        goes_on := true;
    end if;
end
$$;
