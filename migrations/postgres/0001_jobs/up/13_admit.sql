-- A pass of admission.

-- The seconds until admission examines a key with a rate again. Null if no job waits for a token.
create function jobs.next_token() returns double precision
language plpgsql volatile
as $$
begin
    return (select extract(epoch from r.next_at - clock_timestamp())::float8 from jobs.rate r where r.next_at is not null order by r.next_at limit 1);
end
$$;

-- A part of jobs.admit: moves the held jobs at these places, which it has locked. Returns how many.
create function jobs.admit_held(places tid[], may_have_slots boolean) returns bigint
language plpgsql volatile
as $$
declare
    admitted bigint;
    queues text[];
begin
    with moved as (
        delete from jobs.held where ctid = any(places) returning *
    ), taken as (
        insert into jobs.slot (job_id, limit_name, limit_key, number)
        select m.id, m.limit_name, m.limit_key, coalesce((select f.number from jobs.admission_floor f order by f.number desc limit 1), 0)
        from moved m where m.flags & 136 = 0 and not may_have_slots
    ), kept as (
        -- Somebody has made a job with a slot held. `on conflict` takes half as long again, so it is for the second try only.
        insert into jobs.slot (job_id, limit_name, limit_key)
        select m.id, m.limit_name, m.limit_key from moved m where m.flags & 136 = 0 and may_have_slots
        on conflict do nothing
    ), goes_on as (
        -- A discarded job that was retried does not halt its sequence any more.
        update jobs.slot set halted_at = null
        where job_id = any(array(select m.id from moved m where m.flags & 4 <> 0)) and halted_at is not null
    ), made as (
        -- A claim would find an earlier time than now only after a rescan.
        insert into jobs.ready (id, run_at, lease, attempt, max_attempts, crashes, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, flow)
        select m.id, clock_timestamp(), m.lease, m.attempt, m.max_attempts, m.crashes, m.enqueued_at,
               case when m.flags & 128 = 0 then m.flags else m.flags & ~12 | case when m.flow ->> 'sequence' is null then 0 else 4 end end, m.priority, m.kind, m.queue, m.tags, m.args, m.traceparent, m.flow
        from moved m order by m.priority desc, m.run_at, m.id
        returning queue
    )
    select count(*), array_agg(distinct m.queue) into admitted, queues from made m;
    -- The text of jobs.wake: the server would plan a call anew in each pass.
    perform jobs.notify_workers(q.queue) from unnest(queues) as q (queue)
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(q.queue) & 1023) = 1);
    return admitted;
end
$$;

-- A part of jobs.admit: moves a held job that the database refuses to make available into jobs.dead_letter. The rest of its key continues.
create function jobs.set_held_apart(place tid, message text) returns void
language plpgsql volatile
as $$
begin
    with gone as (
        delete from jobs.held where ctid = place returning *
    ), halted as (
        -- The later jobs of its sequence must not start without it, unless it says so.
        insert into jobs.slot (job_id, limit_name, limit_key, halted_at)
        select g.id, g.flow ->> 'limit', g.flow ->> 'key', clock_timestamp() from gone g where g.flow ->> 'sequence' = 'halt'
        on conflict (job_id, limit_name) do update set halted_at = excluded.halted_at
    ), freed as (
        delete from jobs.slot where job_id = any(array(select g.id from gone g where coalesce(g.flow ->> 'sequence', '') <> 'halt'))
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key)
        select g.limit_name, g.limit_key from gone g
        union select '', coalesce(g.flow ->> 'lane', g.flow ->> 'key') from gone g where g.flags & 128 <> 0
    )
    insert into jobs.dead_letter (id, kind, queue, reason, job)
    select g.id, g.kind, g.queue, 'the database refused to make it available: ' || left(message, 500), row_to_json(g) from gone g;
end
$$;

-- A part of jobs.admit: the floors, lowered for keys to which a transaction has brought a job below. Null if no floor is too high.
--
-- It reads no table. So a hash join is safe, and it is ten times as fast as a nested loop over a thousand keys and 32 floors.
create function jobs.lowered_floors(floors json, names text[], keys text[], places smallint[], times timestamptz[]) returns json
language plpgsql stable set enable_hashjoin = on
as $$
begin
    return (select json_agg(json_build_object(
        'name', f.name, 'key', f.key, 'place', case when low.is then new.place else f.place end, 'run_at', case when low.is then new.run_at else f.run_at end,
        'id', case when low.is then 0 else f.id end, 'first_slot', f.first_slot
    ))
    from json_to_recordset(lowered_floors.floors) as f (name text, key text, place smallint, run_at timestamptz, id bigint, first_slot bigint)
    left join unnest(lowered_floors.names, lowered_floors.keys, lowered_floors.places, lowered_floors.times) as new (name, key, place, run_at)
        on new.name = f.name and new.key = f.key
    cross join lateral (select coalesce((new.place, new.run_at) <= (f.place, f.run_at), false) as is) low
    having bool_or(low.is));
end
$$;

-- A part of jobs.admit: writes new floors. `seen` are those of the keys at which this pass has looked. The others stay as they were, up to 32 in
-- all. A key without slots gets none with a lower number than this one.
create function jobs.write_floors(earlier bigint, floors json, seen json) returns void
language plpgsql volatile
as $$
declare
    most_floors constant integer := 32;
begin
    delete from jobs.admission_floor where number = earlier;
    insert into jobs.admission_floor (number, floors)
    select earlier + 1, coalesce(json_agg(json_build_object(
        'name', f.name, 'key', f.key, 'place', f.place, 'run_at', f.run_at, 'id', f.id, 'first_slot', coalesce(f.first_slot, earlier + 1)
    )), '[]')
    from (
        select * from json_to_recordset(seen) as s (name text, key text, place smallint, run_at timestamptz, id bigint, first_slot bigint)
        union all
        select * from json_to_recordset(write_floors.floors) as o (name text, key text, place smallint, run_at timestamptz, id bigint, first_slot bigint)
        where not exists (
            select from json_to_recordset(seen) as s (name text, key text) where s.name = o.name and s.key = o.key
        )
        limit most_floors
    ) f;
end
$$;

-- A pass of admission: moves held jobs to jobs.ready when their limits allow it. `sweeps`: it also searches for keys without a nudge. These are the
-- keys whose jobs have become due or were resumed, and, in case a nudge was lost, the next thousand keys.
-- `more`: the next pass should follow at once. `sweep_again`: the next pass should sweep, too. `set_apart`: how many jobs the database has refused.
-- `holds`: whether any job is held. Null if it does not sweep.
-- `next_token`: in how many seconds the next token comes for which a job waits.
--
-- First it becomes the only session that admits, and only then, in later statements, it reads nudges and counts slots. In one
-- statement the snapshot would be older than the lock, and too many jobs would be admitted. So each statement must have a snapshot
-- of its own, which only READ COMMITTED gives.
--
-- The settings are those of a claim. The statistics are often wrong: they show a table as empty or as full when it is not. Then the planner would
-- read whole tables in each pass, for example all held jobs, to find that none of them is in a sequence.
create function jobs.admit(
    sweeps boolean, out is_busy boolean, out admitted bigint, out more boolean, out sweep_again boolean, out holds boolean, out set_apart bigint,
    out next_token double precision
)
language plpgsql volatile set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    most_nudges constant integer := 1000;
    most_jobs constant integer := 5000;
    most_refused constant integer := 100;
    moment constant timestamptz := clock_timestamp();
    names text[];
    keys text[];
    nudged_places smallint[];
    nudged_times timestamptz[];
    nudges bigint;
    floor_number bigint;
    floors json;
    lowered json;
    seen json;
    writes_floors boolean;
    is_cut boolean;
    paused_queues text[];
    paused_kinds text[];
    places tid[];
    fair_places tid[] := '{}';
    ordered_names text[];
    ordered_keys text[];
    rated_places tid[] := '{}';
    several_places tid[];
    several record;
    place tid;
    message text;
    state text;
begin
    is_busy := false; admitted := 0; more := false; sweep_again := false; set_apart := 0;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'jobs.admit: it works only in READ COMMITTED' using errcode = '25001';
    end if;
    -- Most passes of most databases find nothing. They lock and write nothing. Only a sweep looks for any held job: there may be many entries
    -- of admitted ones.
    holds := case when sweeps then exists (select from jobs.held) end;
    next_token := jobs.next_token();
    if not (sweeps and (holds or exists (select from jobs.rate) or exists (select from jobs.fair_turn))) and not exists (select from jobs.nudge) and coalesce(next_token > 0, true) then
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
        delete from jobs.nudge where ctid = any(array(select n.ctid from jobs.nudge n limit most_nudges))
        returning nudge.limit_name, nudge.limit_key, nudge.place, nudge.run_at
    )
    select array_agg(k.limit_name), array_agg(k.limit_key), array_agg(k.place), array_agg(k.run_at), (select count(*) from gone)
    into names, keys, nudged_places, nudged_times, nudges from (
        select n.limit_name, n.limit_key, min(n.place) filter (where n.run_at is not null) as place, min(n.run_at) as run_at from (
            select g.limit_name, g.limit_key, g.place, g.run_at from gone g
            union all
            (select r.limit_name, r.limit_key, null, null from jobs.rate r where r.next_at <= moment order by r.next_at limit most_nudges)
        ) n
        group by n.limit_name, n.limit_key
    ) k;
    if names is null then
        return;
    end if;
    ordered_names := names;
    ordered_keys := keys;
    if exists (select from jobs.held where not later and not paused and flags & 256 <> 0) then
        select f.places, more or f.goes_on, f.other_names, f.other_keys into fair_places, more, ordered_names, ordered_keys
        from jobs.free_in_fair(names, keys, paused_queues, paused_kinds, most_jobs) f;
    end if;
    select f.number, f.floors into floor_number, floors from jobs.admission_floor f order by f.number desc limit 1;
    -- A nudge without a time has brought no job.
    lowered := case when floors is not null and array_remove(nudged_times, null) <> '{}'
                    then jobs.lowered_floors(floors, names, keys, nudged_places, nudged_times) end;
    select f.places, more or f.goes_on or nudges >= most_nudges, f.seen, f.writes_floors into places, more, seen, writes_floors
    from jobs.free_jobs(ordered_names, ordered_keys, coalesce(lowered, floors), paused_queues, paused_kinds, most_jobs) f;
    places := places || fair_places;
    -- Before slots are made: they get the new number.
    if writes_floors or lowered is not null then
        -- Without earlier floors, the number follows those of all slots: somebody may have emptied the table.
        perform jobs.write_floors(
            coalesce(floor_number, (select max(s.number) from jobs.slot s), 0), coalesce(lowered, floors), seen
        );
    end if;
    if exists (select from jobs.held where flags & 4 <> 0) then
        places := places || jobs.free_in_sequence(names, keys, paused_queues, paused_kinds);
    end if;
    if next_token is not null or exists (select from jobs.held where not later and not paused and flags & 8 <> 0) then
        select f.places, more or f.goes_on into rated_places, more from jobs.free_in_rate(names, keys, paused_queues, paused_kinds, most_jobs) f;
    end if;

    is_cut := cardinality(places) >= most_jobs;
    if exists (select from jobs.held where flags & 128 <> 0) then
        several_places := array(select h.ctid from jobs.held h where h.ctid = any(places || rated_places) and h.flags & 128 <> 0);
        places := array(select p from unnest(places) as p where p <> all(several_places));
        rated_places := array(select p from unnest(rated_places) as p where p <> all(several_places));
    end if;

    begin
        admitted := jobs.admit_held(places || rated_places, false);
    exception when others then
        -- After conflicts, and if the server lacks resources or ends, the whole pass is tried again. A missing grant is not about one job.
        if left(sqlstate, 2) in ('40', '53', '55', '57', '58') or sqlstate = '42501' then
            raise;
        end if;
        -- A constraint or a trigger refuses a job, or its arguments were deleted. The other jobs go on.
        foreach place in array places || rated_places loop
            begin
                admitted := admitted + jobs.admit_held(array[place], true);
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

    -- After the others, whose slots it counts.
    if several_places is not null then
        begin
            several := jobs.admit_several(several_places, names, keys, paused_queues, paused_kinds, most_jobs, false);
        exception when others then
            if left(sqlstate, 2) in ('40', '53', '55', '57', '58') or sqlstate = '42501' then
                raise;
            end if;
            several := jobs.admit_several(several_places, names, keys, paused_queues, paused_kinds, most_jobs, true);
        end;
        admitted := admitted + several.admitted;
        more := more or several.goes_on;
        set_apart := set_apart + several.refused;
    end if;

    if is_cut then
        insert into jobs.nudge (limit_name, limit_key, run_at) select key.name, key.value, null from unnest(names, keys) as key (name, value);
        more := true;
    end if;
    next_token := jobs.next_token();
end
$$;
