-- Which held jobs of a limit with tenants may start.

-- The next tenants of a key that have waiting jobs, in their turns, with the place of the first job of each. First the tenants after the one that was served
-- last, then the others. Jobs without a tenant are one tenant, whose name is empty. Each tenant is found by one probe.
create function jobs.next_tenants(name text, key text, after text, with_empty boolean, most bigint)
returns table (tenant text, place smallint, run_at timestamptz, id bigint)
language plpgsql stable
as $$
#variable_conflict use_variable
begin
    return query
    with recursive later as (
        (select (h.rules #>> '{0,tenant}') collate "C" as tenant, ~h.priority as place, h.run_at::timestamptz as run_at, h.id from jobs.held h
         where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
           and (h.rules #>> '{0,tenant}') collate "C" > after
         order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1)
        union all
        select next.* from later l cross join lateral (
            select (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at::timestamptz, h.id from jobs.held h
            where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
              and (h.rules #>> '{0,tenant}') collate "C" > l.tenant
            order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1
        ) next
    ), earlier as (
        (select (h.rules #>> '{0,tenant}') collate "C" as tenant, ~h.priority as place, h.run_at::timestamptz as run_at, h.id from jobs.held h
         where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
           and (h.rules #>> '{0,tenant}') collate "C" > '' and (h.rules #>> '{0,tenant}') collate "C" <= after
         order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1)
        union all
        select next.* from earlier e cross join lateral (
            select (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at::timestamptz, h.id from jobs.held h
            where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = name and h.limit_key = key
              and (h.rules #>> '{0,tenant}') collate "C" > e.tenant and (h.rules #>> '{0,tenant}') collate "C" <= after
            order by (h.rules #>> '{0,tenant}') collate "C", ~h.priority, h.run_at, h.id limit 1
        ) next
    )
    select * from later
    union all select '', 0::smallint, '-infinity'::timestamptz, 0::bigint where with_empty
    union all select * from earlier limit most;
end
$$;

-- A part of jobs.admit: the same for one key with tenants. The tenants take turns: each gets one job, then each a second one, and so on. In the
-- next pass the tenant after the last one begins. It reads at most twice as many jobs as there are free permits, and few more if something is
-- paused. So if few tenants have many jobs, the next pass continues. `head_..` and `free` are what jobs.heads says.
create function jobs.free_of_tenants(
    name text, key text, head_place smallint, head_run_at timestamptz, head_id bigint, free bigint,
    paused_queues text[], paused_kinds text[], most_jobs bigint, out places tid[], out goes_on boolean
)
language plpgsql volatile
as $$
declare
    -- Jobs without a tenant are found among so many of the key, so that no pass reads many jobs for them.
    most_beside constant integer := 50;
    most_ahead constant bigint := case when cardinality(paused_queues) + cardinality(paused_kinds) > 0 then 500 else 0 end;
    turn record;
    beside tid[];
    last text;
    is_cut boolean;
    is_over boolean;
begin
    places := '{}'; goes_on := false;
    if free > 0 then
        select t.ctid as place, t.written_at, coalesce(t.after, '') as after into turn from (select) one left join lateral (
            select f.ctid, f.written_at, f.after from jobs.fair_turn f where f.limit_name = name and f.limit_key = key order by f.written_at desc limit 1
        ) t on true;
        free := least(free, most_jobs);
        beside := array(
            select h.ctid from (
                select f.ctid, f.flags, f.rules, f.priority, f.run_at, f.id from jobs.held f
                where not f.later and not f.paused and f.flags & 12 = 0 and f.limit_name = name and f.limit_key = key
                  and (~f.priority, f.run_at, f.id) >= (head_place, head_run_at, head_id)
                order by ~f.priority, f.run_at, f.id limit most_beside
            ) h
            where h.flags & 256 = 0 or coalesce(h.rules #>> '{0,tenant}', '') = ''
        );
        with turns as materialized (
            select * from jobs.next_tenants(name, key, turn.after, cardinality(beside) > 0, free) with ordinality as t (tenant, place, run_at, id, turn)
        ), size as materialized (
            select free / count(*) + 1 + most_ahead / count(*) as of_each from turns having count(*) > 0
        ), front as materialized (
            select t.tenant, t.turn, job.ctid, job.is_paused, job.number,
                   row_number() over (partition by t.turn, job.is_paused order by job.number) as round
            from turns t cross join lateral (
                select h.ctid, h.queue = any(paused_queues) or h.kind = any(paused_kinds) as is_paused,
                       row_number() over (order by ~h.priority, h.run_at, h.id) as number
                from (
                    (select f.ctid, f.queue, f.kind, f.priority, f.run_at, f.id from jobs.held f
                     where not f.later and not f.paused and f.flags & 256 <> 0 and f.limit_name = name and f.limit_key = key
                       and (f.rules #>> '{0,tenant}') collate "C" = t.tenant and t.tenant <> ''
                       and (~f.priority, f.run_at, f.id) >= (t.place, t.run_at, t.id)
                     order by ~f.priority, f.run_at, f.id limit (select s.of_each from size s))
                    union all
                    (select f.ctid, f.queue, f.kind, f.priority, f.run_at, f.id from jobs.held f where f.ctid = any(beside) and t.tenant = '')
                ) h
            ) job
        ), parted as (
            -- Those that are paused leave the order of admission. The next pass looks at the jobs behind them.
            update jobs.held set paused = true where ctid = any(array(
                select h.ctid from jobs.held h where h.ctid = any(array(select f.ctid from front f where f.is_paused)) for no key update skip locked
            ))
            returning true
        ), pick as materialized (
            select f.ctid, f.tenant, f.round, f.turn from front f where not f.is_paused order by f.round, f.turn limit free
        )
        select array(select h.ctid from jobs.held h where h.ctid = any(array(select p.ctid from pick p)) for update skip locked),
               (select p.tenant from pick p order by p.round desc, p.turn desc limit 1),
               exists (select from parted),
               (select count(*) from pick) < free and exists (select from front f cross join size s where f.number = s.of_each) or free = most_jobs,
               not exists (select from turns t where t.tenant <> '')
        into places, last, goes_on, is_cut, is_over;
        -- If other sessions have locked all of them, a later sweep takes them.
        goes_on := goes_on or is_cut and (cardinality(places) > 0 or most_jobs = 0);
        if is_over and turn.place is not null then
            -- The next pass takes the others in the usual order.
            delete from jobs.fair_turn where ctid = turn.place;
            goes_on := true;
        elsif last <> turn.after then
            delete from jobs.fair_turn where ctid = turn.place;
            insert into jobs.fair_turn (limit_name, limit_key, written_at, after)
            values (name, key, greatest(clock_timestamp(), turn.written_at + interval '1 microsecond'), last);
        end if;
    end if;
    if goes_on then
        insert into jobs.nudge (limit_name, limit_key, run_at) values (name, key, null);
    end if;
end
$$;

-- A part of jobs.admit: the same for those of these keys for which jobs with tenants wait. `other_names` and `other_keys` are the others, whose jobs
-- start in the usual order.
create function jobs.free_in_fair(
    names text[], keys text[], floors json, paused_queues text[], paused_kinds text[], most_jobs integer,
    out places tid[], out goes_on boolean, out seen json, out writes_floors boolean, out other_names text[], out other_keys text[]
)
language plpgsql volatile
as $$
declare
    jobs_per_floor constant float8 := 100;
    fair_names text[];
    fair_keys text[];
    head record;
    one record;
    all_seen json[] := '{}';
begin
    places := '{}'; goes_on := false; writes_floors := false;
    -- A key with a turn has tenants. To look for a job would be to read the entries of those that have left.
    select coalesce(array_agg(k.name) filter (where k.is_fair), '{}'), coalesce(array_agg(k.value) filter (where k.is_fair), '{}'),
           coalesce(array_agg(k.name) filter (where not k.is_fair), '{}'), coalesce(array_agg(k.value) filter (where not k.is_fair), '{}')
    into fair_names, fair_keys, other_names, other_keys from (
        select key.name, key.value, (
            select true from jobs.fair_turn t where t.limit_name = key.name and t.limit_key = key.value order by t.written_at desc limit 1
        ) is not null or exists (
            select from jobs.held h where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = key.name and h.limit_key = key.value
        ) as is_fair
        from unnest(names, keys) as key (name, value)
    ) k;
    for head in select h.*, random() < h.free / jobs_per_floor as writes from jobs.heads(fair_names, fair_keys, floors) h loop
        select f.places, f.goes_on into one from jobs.free_of_tenants(
            head.name, head.key, head.place, head.run_at, head.id, head.free, paused_queues, paused_kinds, most_jobs - cardinality(places)
        ) f;
        places := places || one.places;
        goes_on := goes_on or one.goes_on;
        writes_floors := writes_floors or head.writes;
        if head.has_floor or head.writes then
            all_seen := array_append(all_seen, json_build_object(
                'name', head.name, 'key', head.key, 'place', head.place, 'run_at', head.run_at, 'id', head.id, 'first_permit', head.first_permit
            ));
        end if;
    end loop;
    seen := array_to_json(all_seen);
end
$$;
