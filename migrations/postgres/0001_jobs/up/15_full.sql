-- Jobs that do not wait for a full limit.

-- Whether jobs are held that do not wait if their limit is full. A worker calls it after each pass. It is volatile, so that it sees what the pass
-- has done in the same statement.
create function jobs.may_be_full() returns boolean
language plpgsql volatile set jit = off
as $$
begin
    return exists (select from jobs.held h where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused)
       and not exists (select from jobs.installation where frozen_at is not null);
end
$$;

-- The jobs that end because their limit is full: `on_full` says how. It reads everything in one snapshot, and needs no lock of admission. It skips the
-- first jobs of each key, as many as there are free permits or tokens: admission starts them. A job that it returns may have started meanwhile. Jobs
-- that the database has refused to end are left out for a while.
--
-- `discard`: the due jobs behind them. `cancel_oldest`: the oldest jobs of the key, waiting or started, until as many are left as the limit allows.
-- It cancels only jobs that have this rule themselves. Jobs of another kind that shares the limit are not cancelled, and their permits do not count as
-- free. At least one job always remains, even if it must wait.
create function jobs.full_jobs(most_jobs integer) returns table (job_id bigint, name text, rule text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    most_keys constant integer := 1000;
    moment constant timestamptz := clock_timestamp();
    paused_queues constant text[] := array(select q.name from jobs.queue q where q.paused);
    paused_kinds constant text[] := array(select k.name from jobs.kind k where k.paused);
begin
    if exists (select from jobs.installation i where i.frozen_at is not null) then
        return;
    end if;
    return query
    with recursive key (name, value, rated, number) as (
        (select h.limit_name, h.limit_key, h.flags & 8, 1 from jobs.held h
         where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused
         order by h.limit_name, h.limit_key, h.flags & 8 limit 1)
        union all
        select next.limit_name, next.limit_key, next.rated, key.number + 1 from key cross join lateral (
            select h.limit_name, h.limit_key, h.flags & 8 as rated from jobs.held h
            where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused
              and (h.limit_name, h.limit_key, h.flags & 8) > (key.name, key.value, key.rated)
            order by h.limit_name, h.limit_key, h.flags & 8 limit 1
        ) next
        where key.number < most_keys
    ), free as materialized (
        -- The first job decides, as in a pass.
        select key.name, key.value, key.rated, case when key.rated <> 0 then jobs.tokens(
                   case when first.flags & 128 = 0 then first.rules -> 0 else jobs.rule_of(first.rules, key.name) end, moment
               ) else jobs.allowed(key.name, first.most) - (
                   select count(*) from jobs.permit s where s.limit_name = key.name and s.limit_key = key.value
               ) end as number
        from key cross join lateral (
            (select h.flags, h.rules, h.most from jobs.held h
             where key.rated = 0 and not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id limit 1)
            union all
            (select h.flags, h.rules, h.most from jobs.held h
             where key.rated <> 0 and not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = key.name and h.limit_key = key.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id limit 1)
        ) first
        where not exists (
            select from jobs.admission_failure f where f.limit_name = key.name and f.limit_key = key.value and f.job_id = 0 offset 0
        )
    ), behind as materialized (
        -- The first job that cannot start.
        select free.*, first.place, first.run_at, first.id from free cross join lateral (
            (select ~h.priority as place, h.run_at::timestamptz as run_at, h.id from jobs.held h
             where free.rated = 0 and not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = free.name and h.limit_key = free.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id offset greatest(free.number, 0) limit 1)
            union all
            (select ~h.priority, h.run_at::timestamptz, h.id from jobs.held h
             where free.rated <> 0 and not h.later and not h.paused and h.flags & 8 <> 0 and h.limit_name = free.name and h.limit_key = free.value
               and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
             order by ~h.priority, h.run_at, h.id offset greatest(free.number, 0) limit 1)
        ) first
    ), full_job as materialized (
        select behind.name, behind.value, behind.number, job.id, job.rule from behind cross join lateral (
            select h.id, coalesce(h.rules #>> '{0,rule,concurrency,on_full}', h.rules #>> '{0,rule,rate,on_full}') as rule from jobs.held h
            where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused
              and h.limit_name = behind.name and h.limit_key = behind.value and h.flags & 8 = behind.rated
              and (~h.priority, h.run_at, h.id) >= (behind.place, behind.run_at, behind.id)
              and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
              and not exists (
                  select from jobs.admission_failure f where f.limit_name = '' and f.limit_key = '' and f.job_id = h.id and f.next_at > moment offset 0
              )
            order by ~h.priority, h.run_at, h.id limit most_jobs
        ) job
    ), started as materialized (
        -- The started jobs of the keys in which a job is to cancel the oldest.
        select key.name, key.value, job.id from (
            select distinct f.name, f.value from full_job f where f.rule = 'cancel_oldest'
        ) key
        cross join lateral (
            select s.job_id from jobs.permit s where s.limit_name = key.name and s.limit_key = key.value
        ) permit
        cross join lateral (
            (select r.id from jobs.ready r where r.id = permit.job_id and r.flags & 64 <> 0 and r.rules #>> '{0,rule,concurrency,on_full}' = 'cancel_oldest' offset 0)
            union all
            (select r.id from jobs.running r where r.id = permit.job_id and r.flags & 64 <> 0 and r.rules #>> '{0,rule,concurrency,on_full}' = 'cancel_oldest' offset 0)
        ) job
    ), oldest as (
        select key.name, job.id from (
            select f.name, f.value, min(f.number) as number from full_job f where f.rule = 'cancel_oldest' group by f.name, f.value
        ) key
        cross join lateral (
            select each.id, row_number() over (order by each.id desc) as place from (
                select s.id from started s where s.name = key.name and s.value = key.value
                union all
                select h.id from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.name and h.limit_key = key.value
                  and h.flags & 64 <> 0 and h.rules #>> '{0,rule,concurrency,on_full}' = 'cancel_oldest' and h.queue <> all(paused_queues) and h.kind <> all(paused_kinds)
            ) each
        ) job
        where job.place > greatest(1, key.number + (select count(*) from started s where s.name = key.name and s.value = key.value))
          and not exists (
              select from jobs.admission_failure f where f.limit_name = '' and f.limit_key = '' and f.job_id = job.id and f.next_at > moment offset 0
          )
        order by job.id
    )
    (select f.id, f.name, f.rule from full_job f where f.rule = 'discard' limit most_jobs)
    union all
    (select o.id, o.name, 'cancel_oldest' from oldest o limit most_jobs);
end
$$;
