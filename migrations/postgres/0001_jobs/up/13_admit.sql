-- A pass of admission.

-- The seconds until admission examines a key again, because a token comes, or because a pass has failed there. Null if there is no such key. The
-- tokens of a key that passes leave out are not waited for.
create function jobs.next_token(sweeps boolean) returns double precision
language plpgsql volatile
as $$
begin
    return (select extract(epoch from min(n.at) - clock_timestamp())::float8 from (
        (select r.next_at from jobs.rate r
         where r.next_at >= coalesce((select f.next_at from jobs.admission_floor f where not sweeps order by f.number desc limit 1), '-infinity') and not exists (
             select from jobs.admission_failure f where f.limit_name = r.limit_name and f.limit_key = r.limit_key and f.job_id = 0 offset 0
         ) order by r.next_at limit 1)
        union all
        select f.next_at from jobs.admission_failure f where f.job_id = 0
    ) n (at));
end
$$;

-- A part of jobs.admit: notes that it could not handle this key or this job, or, without a key, end it, and returns when it tries again: after a second, and twice as late
-- each time, up to a minute. A pass that was cancelled has kept all others waiting, so it comes again up to ten minutes later.
create function jobs.note_failure(name text, key text, job bigint, state text, message text) returns timestamptz
language plpgsql volatile
as $$
declare
    longest constant float8 := case when state = '57014' then 600 else 60 end;
    again timestamptz;
begin
    insert into jobs.admission_failure as f (limit_name, limit_key, job_id, next_at, message)
    values (name, key, job, clock_timestamp() + interval '1 second', concat(left(message, 500), ' (' || state || ')'))
    on conflict (limit_name, limit_key, job_id) do update set
        failures = least(f.failures, 999999) + 1, message = excluded.message,
        next_at = clock_timestamp() + least(power(2, least(f.failures, 20)), longest) * interval '1 second'
    returning f.next_at into again;
    return again;
end
$$;

-- A part of jobs.admit: moves the held jobs at these places, which it has locked. Returns how many.
create function jobs.admit_held(places tid[], may_have_permits boolean) returns bigint
language plpgsql volatile
as $$
declare
    admitted bigint;
    queues text[];
begin
    with moved as (
        delete from jobs.held where ctid = any(places) returning *
    ), taken as (
        insert into jobs.permit (job_id, limit_name, limit_key, number)
        select m.id, m.limit_name, m.limit_key, coalesce((select f.number from jobs.admission_floor f order by f.number desc limit 1), 0)
        from moved m where m.flags & 136 = 0 and not may_have_permits
    ), kept as (
        -- Somebody has made a job with a permit held. `on conflict` takes half as long again, so it is for the second try only.
        insert into jobs.permit (job_id, limit_name, limit_key)
        select m.id, m.limit_name, m.limit_key from moved m where m.flags & 136 = 0 and may_have_permits
        on conflict do nothing
    ), goes_on as (
        -- A discarded job that was retried does not halt its sequence any more.
        update jobs.permit set halted_at = null
        where job_id = any(array(select m.id from moved m where m.flags & 4 <> 0)) and halted_at is not null
    ), made as (
        -- A claim would find an earlier time than now only after a rescan.
        insert into jobs.ready (id, run_at, lease, attempt, max_attempts, crashes, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules)
        select m.id, clock_timestamp(), m.lease, m.attempt, m.max_attempts, m.crashes, m.enqueued_at,
               case when m.flags & 128 = 0 then m.flags else m.flags & ~12 | case when m.rules #> '{0,rule,sequence}' is null then 0 else 4 end end,
               m.priority, m.kind, m.queue, m.tags, m.args, m.traceparent, m.rules
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
        insert into jobs.permit (job_id, limit_name, limit_key, halted_at)
        select g.id, g.rules #>> '{0,name}', g.rules #>> '{0,key}', clock_timestamp() from gone g where g.rules #>> '{0,rule,sequence,on_discard}' = 'halt'
        on conflict (job_id, limit_name) do update set halted_at = excluded.halted_at
    ), freed as (
        delete from jobs.permit where job_id = any(array(select g.id from gone g where coalesce(g.rules #>> '{0,rule,sequence,on_discard}', '') <> 'halt'))
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key)
        select g.limit_name, g.limit_key from gone g
        union select g.rules #>> '{0,name}', g.rules #>> '{0,key}' from gone g where g.rules #> '{0,rule,sequence}' is not null
        union select '', jobs.lane(g.rules) from gone g where g.flags & 128 <> 0
    )
    insert into jobs.dead_letter (id, kind, queue, reason, job)
    select g.id, g.kind, g.queue, 'the database refused to make it available: ' || left(message, 500), row_to_json(g) from gone g;
end
$$;

-- A part of jobs.admit: the floors, lowered for keys to which a transaction has brought a job below. Null if no floor is too high. A nudge does not
-- say which ids its jobs have. So in a sequence it lowers the floor if the transaction had drawn them before.
--
-- It reads no table. So a hash join is safe, and it is ten times as fast as a nested loop over a thousand keys and 32 floors.
create function jobs.lowered_floors(floors json, names text[], keys text[], places smallint[], times timestamptz[]) returns json
language plpgsql stable set enable_hashjoin = on
as $$
begin
    return (select json_agg(json_build_object(
        'name', f.name, 'key', f.key, 'place', case when low.is then new.place else f.place end, 'run_at', case when low.is then new.run_at else f.run_at end,
        'id', case when low.is then 0 else f.id end, 'turn', case when low.is_turn then 0 else f.turn end, 'turn_at', f.turn_at, 'first_permit', f.first_permit
    ))
    from json_to_recordset(lowered_floors.floors)
        as f (name text, key text, place smallint, run_at timestamptz, id bigint, turn bigint, turn_at timestamptz, first_permit bigint)
    left join unnest(lowered_floors.names, lowered_floors.keys, lowered_floors.places, lowered_floors.times) as new (name, key, place, run_at)
        on new.name = f.name and new.key = f.key
    cross join lateral (
        select coalesce((new.place, new.run_at) <= (f.place, f.run_at), false) as is, coalesce(new.run_at <= f.turn_at, false) as is_turn
    ) low
    having bool_or(low.is or low.is_turn));
end
$$;

-- A part of jobs.admit: writes new floors, up to 32 in all. `floors` are several lists. For a key that is in two of them, the first one counts. The last
-- are the earlier floors, of keys at which this pass has not looked. A key without permits gets none with a lower number than this one.
create function jobs.write_floors(earlier bigint, floors json[], next_at timestamptz) returns void
language plpgsql volatile
as $$
declare
    most_floors constant integer := 32;
begin
    delete from jobs.admission_floor where number = earlier;
    insert into jobs.admission_floor (number, floors, next_at)
    select earlier + 1, coalesce(json_agg(json_build_object(
        'name', f.name, 'key', f.key, 'place', f.place, 'run_at', f.run_at, 'id', f.id, 'turn', f.turn, 'turn_at', f.turn_at,
        'first_permit', coalesce(f.first_permit, earlier + 1)
    )), '[]'), write_floors.next_at
    from (
        select one.* from (
            select distinct on (o.name, o.key) o.*, list.number as list from unnest(write_floors.floors) with ordinality as list (floors, number)
            cross join json_to_recordset(list.floors)
                as o (name text, key text, place smallint, run_at timestamptz, id bigint, turn bigint, turn_at timestamptz, first_permit bigint)
            order by o.name, o.key, list.number
        ) one
        order by one.list limit most_floors
    ) f;
end
$$;

-- A part of jobs.admit: moves as many held jobs of these keys as may start. If anything fails, all of it is undone, unless `one_by_one`: then each job
-- can fail alone. `nudged_..`: first these keys, and then those with a nudge that are left out. It may need to lower their floors. `until`: after
-- this time it leaves the other jobs to the next pass, if it handles them one by one.
create function jobs.admit_keys(
    names text[], keys text[], nudged_names text[], nudged_keys text[], nudged_places smallint[], nudged_times timestamptz[],
    paused_queues text[], paused_kinds text[], one_by_one boolean, checks boolean, until timestamptz,
    out admitted bigint, out more boolean, out set_apart bigint
)
language plpgsql volatile
as $$
declare
    most_jobs constant integer := case when one_by_one then 100 else 5000 end;
    floor_number bigint;
    floors json;
    lowered json;
    seen json;
    turns json;
    writes_floors boolean := false;
    writes_turns boolean := false;
    waits_from timestamptz;
    earliest timestamptz;
    is_cut boolean;
    places tid[];
    fair_places tid[] := '{}';
    fair_seen json;
    writes_fair boolean := false;
    ordered_names text[] := names;
    ordered_keys text[] := keys;
    rated_places tid[] := '{}';
    several_places tid[];
    one record;
    several record;
begin
    admitted := 0; more := false; set_apart := 0;
    -- One key alone is read from its beginning.
    if not one_by_one then
        select f.number, f.floors, f.next_at into floor_number, floors, waits_from from jobs.admission_floor f order by f.number desc limit 1;
    end if;
    -- A nudge without a time has brought no job.
    lowered := case when floors is not null and array_remove(nudged_times, null) <> '{}'
                    then jobs.lowered_floors(floors, nudged_names, nudged_keys, nudged_places, nudged_times) end;
    if jobs.is_used('jobs.held_fair') then
        select f.places, f.goes_on, f.seen, f.writes_floors, f.other_names, f.other_keys
        into fair_places, more, fair_seen, writes_fair, ordered_names, ordered_keys
        from jobs.free_in_fair(names, keys, coalesce(lowered, floors), paused_queues, paused_kinds, most_jobs) f;
    end if;
    select f.places, more or f.goes_on, f.seen, f.writes_floors into places, more, seen, writes_floors
    from jobs.free_jobs(ordered_names, ordered_keys, coalesce(lowered, floors), paused_queues, paused_kinds, most_jobs) f;
    places := places || fair_places;
    if jobs.is_used('jobs.held_sequence') then
        select f.places, f.seen, f.writes_floors into one
        from jobs.free_in_sequence(names, keys, coalesce(lowered, floors), paused_queues, paused_kinds) f;
        places := places || one.places;
        turns := one.seen;
        writes_turns := one.writes_floors;
    end if;
    if jobs.is_used('jobs.held_rate') then
        select f.places, more or f.goes_on, f.next_at into rated_places, more, earliest
        from jobs.free_in_rate(names, keys, nudged_places, nudged_times, paused_queues, paused_kinds, most_jobs) f;
    end if;
    -- Before permits are made: they get the new number.
    if not one_by_one and (writes_floors or writes_fair or writes_turns or lowered is not null or earliest < waits_from or earliest is not null and random() < 0.02) then
        -- It is not in the future, because later rows of jobs.rate are not earlier than now.
        waits_from := least(clock_timestamp(), earliest, (
            select r.next_at from jobs.rate r where r.next_at >= coalesce(waits_from, '-infinity') order by r.next_at limit 1
        ));
        -- Without earlier floors, the number follows those of all permits: somebody may have emptied the table.
        perform jobs.write_floors(
            coalesce(floor_number, (select max(s.number) from jobs.permit s), 0), array[seen, fair_seen, turns, coalesce(lowered, floors)], waits_from
        );
    end if;

    is_cut := cardinality(places) >= most_jobs;
    if jobs.is_used('jobs.held_several') then
        several_places := array(select h.ctid from jobs.held h where h.ctid = any(places || rated_places) and h.flags & 128 <> 0);
        places := array(select p from unnest(places) as p where p <> all(several_places));
        rated_places := array(select p from unnest(rated_places) as p where p <> all(several_places));
    end if;

    if one_by_one then
        select each.admitted, each.set_apart into one from jobs.admit_each(places, false, checks, until) each;
        admitted := one.admitted;
        set_apart := one.set_apart;
        select each.admitted, each.set_apart into one from jobs.admit_each(rated_places, true, checks, until) each;
        admitted := admitted + one.admitted;
        set_apart := set_apart + one.set_apart;
        more := more or admitted < cardinality(places) + cardinality(rated_places);
    else
        admitted := jobs.admit_held(places || rated_places, false);
    end if;

    -- After the others, whose permits it counts.
    if several_places is not null then
        several := jobs.admit_several(several_places, names, keys, paused_queues, paused_kinds, most_jobs, one_by_one, until);
        admitted := admitted + several.admitted;
        more := more or several.goes_on;
        set_apart := set_apart + several.set_apart;
    end if;

    if is_cut then
        insert into jobs.nudge (limit_name, limit_key, run_at) select key.name, key.value, null from unnest(names, keys) as key (name, value);
        more := true;
    end if;
    if checks then
        set constraints all immediate;
    end if;
end
$$;

-- Whether the role lacks a right on our own tables. That concerns all jobs, and the worker reports it. A right that a trigger lacks concerns one.
create function jobs.lacks_rights() returns boolean
language sql stable
as $$
    select exists (
        select from (values
            ('held', '{SELECT,INSERT,DELETE}'), ('permit', '{SELECT,INSERT,DELETE}'), ('nudge', '{SELECT,INSERT,DELETE}'), ('ready', '{SELECT,INSERT}'),
            ('rate', '{SELECT,INSERT,DELETE}'), ('fair_turn', '{SELECT,INSERT,DELETE}'), ('admission_floor', '{SELECT,INSERT,DELETE}'),
            ('admission', '{SELECT,INSERT,UPDATE}'), ('admission_failure', '{SELECT,INSERT,UPDATE,DELETE}'), ('limit_setting', '{SELECT}'),
            ('dead_letter', '{INSERT}'), ('running', '{SELECT}'), ('payload', '{SELECT,DELETE}')
        ) needed (name, privileges) cross join unnest(needed.privileges::text[]) privilege
        where not has_table_privilege('jobs.' || needed.name, privilege)
    ) or exists (
        select from unnest('{later,paused,run_at,limit_name,limit_key,most,flags}'::text[]) name where not has_column_privilege('jobs.held', name, 'UPDATE')
    ) or not has_column_privilege('jobs.permit', 'halted_at', 'UPDATE')
      or not has_column_privilege('jobs.worker', 'idle', 'SELECT') or not has_column_privilege('jobs.worker', 'queue_filter', 'SELECT')
$$;

-- A part of jobs.admit: handles these keys one by one, so that each can fail alone. A key at which it fails is left out for a while. It ends early
-- if it takes long, or if the server cancels it. Then the other keys are nudged, and the next pass continues.
--
-- Each job may wait for the same lock, because of a trigger. So it waits more briefly than the try for all keys did, and for a few jobs only.
create function jobs.admit_each_key(
    names text[], keys text[], paused_queues text[], paused_kinds text[], checks boolean, until timestamptz,
    out admitted bigint, out more boolean, out set_apart bigint
)
language plpgsql volatile set lock_timeout = '20ms'
as $$
declare
    is_late boolean := false;
    one record;
    state text;
    message text;
begin
    admitted := 0; more := false; set_apart := 0;
    for number in 1 .. cardinality(names) loop
        if is_late or number > 1 and clock_timestamp() > until then
            insert into jobs.nudge (limit_name, limit_key) select r.name, r.value from unnest(names[number:], keys[number:]) as r (name, value);
            more := true;
            return;
        end if;
        begin
            select k.admitted, k.more, k.set_apart into one from jobs.admit_keys(
                names[number:number], keys[number:number], names[number:number], keys[number:number], '{-32768}', '{-infinity}', paused_queues, paused_kinds, true, checks, until
            ) k;
            delete from jobs.admission_failure f where f.limit_name = names[number] and f.limit_key = keys[number] and f.job_id = 0;
            admitted := admitted + one.admitted;
            more := more or one.more;
            set_apart := set_apart + one.set_apart;
        exception when query_canceled or others then
            if sqlstate = '42501' and jobs.lacks_rights() then
                raise;
            end if;
            state := sqlstate;
            message := sqlerrm;
            is_late := state = '57014';
            perform jobs.note_failure(names[number], keys[number], 0, state, message);
        end;
    end loop;
end
$$;

-- A part of jobs.admit: what jobs.sweep does first, for each job alone. A pass calls it if jobs.sweep has failed. Jobs that have not failed before
-- come first. After the time `until`, it leaves the others to the next pass. Returns whether it has left any.
create function jobs.sweep_each(paused_queues text[], paused_kinds text[], until timestamptz) returns boolean
language plpgsql volatile set lock_timeout = '20ms'
as $$
declare
    most_jobs constant integer := 500;
    moment constant timestamptz := clock_timestamp();
    tried bigint := 0;
    job record;
    state text;
    message text;
begin
    for job in
        select h.ctid as place, h.id, h.limit_name, h.limit_key, h.priority, h.run_at::timestamptz as run_at from jobs.held h
        where h.ctid = any(array(
            select d.ctid from jobs.held d where d.later and d.run_at <= moment and not exists (
                select from jobs.admission_failure f where f.limit_name = d.limit_name and f.limit_key = d.limit_key and f.job_id = d.id and f.next_at > moment offset 0
            ) order by d.run_at, d.id limit most_jobs for no key update skip locked
        ) || array(
            select p.ctid from jobs.held p
            where p.paused and p.queue <> all(paused_queues) and p.kind <> all(paused_kinds) and not exists (
                select from jobs.admission_failure f where f.limit_name = p.limit_name and f.limit_key = p.limit_key and f.job_id = p.id and f.next_at > moment offset 0
            ) limit most_jobs for no key update skip locked
        ))
        order by exists (
            select from jobs.admission_failure f where f.limit_name = h.limit_name and f.limit_key = h.limit_key and f.job_id = h.id offset 0
        ), h.run_at, h.id
    loop
        if tried > 0 and clock_timestamp() > until then
            return true;
        end if;
        tried := tried + 1;
        begin
            update jobs.held set later = false, paused = false where ctid = job.place;
            insert into jobs.nudge (limit_name, limit_key, place, run_at) values (job.limit_name, job.limit_key, ~job.priority, job.run_at);
        exception when others then
            state := sqlstate;
            message := sqlerrm;
            perform jobs.note_failure(job.limit_name, job.limit_key, job.id, state, message);
        end;
    end loop;
    return false;
end
$$;

-- A pass of admission: moves held jobs to jobs.ready when their limits allow it. `sweeps`: it also searches for keys without a nudge. These are the
-- keys whose jobs have become due or were resumed, and, in case a nudge was lost, the next thousand keys. `careful`: the last pass of this worker has
-- failed as a whole, so this one handles the keys one by one.
-- `more`: the next pass should follow at once. `sweep_again`: the next pass should sweep, too. `set_apart`: how many jobs the database has refused.
-- `failures`: how many keys and jobs are left out for a while, see jobs.admission_failure. Null if it does not sweep.
-- `holds`: whether any job is held. Null if it does not sweep.
-- `next_token`: in how many seconds admission must look at a key again, because a token comes for which a job waits.
--
-- First it becomes the only session that admits, and only then, in later statements, it reads nudges and counts permits. In one
-- statement the snapshot would be older than the lock, and too many jobs would be admitted. So each statement must have a snapshot
-- of its own, which only READ COMMITTED gives.
--
-- Usually it handles all keys with the same statements. If one of these fails, they are undone, and each key is handled alone.
--
-- The settings are those of a claim. The statistics are often wrong: they show a table as empty or as full when it is not. Then the planner would
-- read whole tables in each pass, for example all held jobs, to find that none of them is in a sequence. Admission waits for no lock of ours. If
-- another session has locked one of its rows, or a row for which a trigger of the application waits, a long wait would stop all limits. So the key of
-- that row, or the job, is left out for a while.
create function jobs.admit(
    sweeps boolean, careful boolean default false, out is_busy boolean, out admitted bigint, out more boolean, out sweep_again boolean, out holds boolean,
    out set_apart bigint, out failures bigint, out next_token double precision
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '200ms'
as $$
declare
    most_nudges constant integer := 1000;
    most_apart constant integer := 100;
    -- How long jobs that are handled one by one may take.
    longest constant interval := interval '200 ms';
    moment constant timestamptz := clock_timestamp();
    names text[];
    keys text[];
    nudged_names text[];
    nudged_keys text[];
    nudged_places smallint[];
    nudged_times timestamptz[];
    nudges bigint;
    others bigint;
    apart_names text[] := '{}';
    apart_keys text[] := '{}';
    paused_queues text[];
    paused_kinds text[];
    is_apart boolean := careful and not jobs.lacks_rights();
    one record;
    state text;
    message text;
begin
    is_busy := false; admitted := 0; more := false; sweep_again := false; set_apart := 0;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'jobs.admit: it works only in READ COMMITTED' using errcode = '25001';
    end if;
    -- Most passes of most databases find nothing. They lock and write nothing. Only a sweep looks for any held job: there may be many entries
    -- of admitted ones.
    holds := case when sweeps then exists (select from jobs.held) end;
    -- Nothing starts, so no worker has to look at a key when its token comes.
    if exists (select from jobs.installation where frozen_at is not null) then
        return;
    end if;
    next_token := jobs.next_token(sweeps);
    failures := case when sweeps then 0 end;
    if not (sweeps and (holds or exists (select from jobs.rate) or exists (select from jobs.fair_turn) or exists (select from jobs.admission_failure)))
       and not exists (select from jobs.nudge) and coalesce(next_token > 0, true) then
        return;
    end if;
    -- In a new session, the server plans all these statements, which takes ten times as long as the pass. If workers are killed and start again
    -- all the time, most passes are in new sessions. So it plans before it has the lock. With no keys, the statements read and lock no row.
    if current_setting('jobs.has_planned', true) is distinct from 'on' then
        begin
            perform jobs.sweep('{}', '{}', 0);
            perform jobs.admit_keys('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', false, false, moment);
        exception when others then
            -- The pass deals with it.
        end;
        perform set_config('jobs.has_planned', 'on', false);
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
    -- If a crash of the server loses the commit, the jobs are held again. A later commit that waits for the disk keeps this one, too.
    perform set_config('synchronous_commit', 'off', true);
    paused_queues := array(select q.name from jobs.queue q where q.paused);
    paused_kinds := array(select k.name from jobs.kind k where k.paused);

    if sweeps then
        begin
            sweep_again := jobs.sweep(paused_queues, paused_kinds);
            if careful then
                set constraints all immediate;
            end if;
            -- A job that has become due and does not fail again may still wait for its limit.
            delete from jobs.admission_failure f
            where f.job_id <> 0 and (f.next_at < moment - interval '10 minutes' or not (
                exists (select from jobs.held h where h.id = f.job_id offset 0)
                or f.limit_key = '' and exists (select from jobs.ready r where r.id = f.job_id offset 0)
                or f.limit_key = '' and exists (select from jobs.running r where r.id = f.job_id offset 0)
            ));
        exception when others then
            if sqlstate = '42501' and jobs.lacks_rights() then
                raise;
            end if;
            state := sqlstate;
            message := sqlerrm;
            perform jobs.note_failure('', '', -1, state, message);
            sweep_again := jobs.sweep_each(paused_queues, paused_kinds, clock_timestamp() + longest);
        end;
        more := sweep_again;
        failures := (
            select count(*) from jobs.admission_failure f
            where f.job_id <= 0 or f.limit_key <> '' and exists (select from jobs.held h where h.id = f.job_id and h.later offset 0)
        );
    end if;

    -- What is nudged is committed, so the next statement sees it.
    with gone as (
        delete from jobs.nudge where ctid = any(array(select n.ctid from jobs.nudge n limit most_nudges))
        returning nudge.limit_name, nudge.limit_key, nudge.place, nudge.run_at
    )
    select array_agg(k.limit_name), array_agg(k.limit_key), array_agg(k.place), array_agg(k.run_at), (select count(*) from gone)
    into nudged_names, nudged_keys, nudged_places, nudged_times, nudges from (
        select n.limit_name, n.limit_key, min(n.place) filter (where n.run_at is not null) as place, min(n.run_at) as run_at from (
            select g.limit_name, g.limit_key, g.place, g.run_at from gone g
            union all
            (select r.limit_name, r.limit_key, null, null from jobs.rate r
             where r.next_at <= moment
               and r.next_at >= coalesce((select f.next_at from jobs.admission_floor f where not sweeps order by f.number desc limit 1), '-infinity')
             order by r.next_at limit most_nudges)
        ) n
        group by n.limit_name, n.limit_key
    ) k;
    names := coalesce(nudged_names, '{}');
    keys := coalesce(nudged_keys, '{}');
    if exists (select from jobs.admission_failure f where f.job_id >= 0) then
        -- The failure of a key is its nudge, so its nudges may go. A key of whose jobs one has failed is handled alone, because the job may fail again.
        -- There may be time for a few such keys only, so each has its chance to come first.
        select array_agg(k.name order by k.comes), array_agg(k.value order by k.comes), array_agg(k.place order by k.comes), array_agg(k.run_at order by k.comes),
               coalesce(array_agg(k.name order by k.comes) filter (where k.failed > 0), '{}'), coalesce(array_agg(k.value order by k.comes) filter (where k.failed > 0), '{}'),
               count(*) filter (where k.failed is null)
        into nudged_names, nudged_keys, nudged_places, nudged_times, apart_names, apart_keys, others from (
            select n.*, f.job_id as failed, row_number() over (order by f.job_id is not null, random()) as comes
            from unnest(nudged_names, nudged_keys, nudged_places, nudged_times) as n (name, value, place, run_at) left join lateral (
                select a.job_id from jobs.admission_failure a
                where a.limit_name = n.name and a.limit_key = n.value and a.job_id >= 0 order by a.job_id limit 1
            ) f on true
        ) k;
        names := coalesce(nudged_names[:others], '{}');
        keys := coalesce(nudged_keys[:others], '{}');
        select coalesce(array_agg(f.limit_name), '{}') || apart_names, coalesce(array_agg(f.limit_key), '{}') || apart_keys into apart_names, apart_keys from (
            select * from jobs.admission_failure a where a.job_id = 0 and a.next_at <= moment order by a.next_at limit most_apart
        ) f;
    end if;
    more := more or nudges >= most_nudges;

    if nudged_names is not null and not is_apart then
        begin
            select k.admitted, k.more, k.set_apart into one from jobs.admit_keys(
                names, keys, nudged_names, nudged_keys, nudged_places, nudged_times, paused_queues, paused_kinds, false, false, 'infinity'
            ) k;
            admitted := one.admitted;
            more := more or one.more;
            names := '{}'; keys := '{}';
        exception when others then
            if sqlstate = '42501' and jobs.lacks_rights() then
                raise;
            end if;
            is_apart := true;
        end;
    end if;
    if nudged_names is not null and is_apart then
        -- These nudges lower no floor.
        delete from jobs.admission_floor;
    end if;
    -- A key that may fail again comes last.
    if names || apart_names <> '{}' then
        select k.admitted, k.more, k.set_apart into one
        from jobs.admit_each_key(names || apart_names, keys || apart_keys, paused_queues, paused_kinds, careful, clock_timestamp() + longest) k;
        admitted := admitted + one.admitted;
        more := more or one.more;
        set_apart := set_apart + one.set_apart;
    end if;
    next_token := jobs.next_token(sweeps);
end
$$;
