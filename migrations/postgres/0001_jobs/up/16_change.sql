-- What happens to jobs that exist: operators and applications cancel, retry and reschedule them.

-- Gives back what these jobs have of their rules, and nudges the keys: one element of each array for each job. `wait_again`: the jobs wait for
-- their rules again, and a sequence keeps its turn. Otherwise they have ended, and were not discarded. FreePermits in Rust says more.
create function jobs.free_permits(ids bigint[], flags integer[], rules json[], wait_again boolean) returns void
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    with job as (
        select j.id, j.flags, j.rules, not wait_again or j.rules #> '{0,rule,sequence}' is null as gives_turn
        from unnest(free_permits.ids, free_permits.flags, free_permits.rules) j (id, flags, rules) where j.rules is not null
    ), freed as (
        delete from jobs.permit where job_id = any(array(select id from job where gives_turn))
    ), freed_beside_turn as (
        delete from jobs.permit where ctid = any(array(
            select permit.ctid from job cross join lateral jobs.beside_sequence(job.rules) r cross join lateral (
                select s.ctid from jobs.permit s where s.job_id = job.id and s.limit_name = r ->> 'name' offset 0
            ) permit
            where job.flags & 128 <> 0 and not job.gives_turn
        ))
    ), nudged as (
        insert into jobs.nudge (limit_name, limit_key, run_at)
        select distinct p.limit_name, p.limit_key, case when wait_again then '-infinity'::timestamptz end from job cross join lateral jobs.place(job.rules) p
        where job.flags & 136 <> 8 or wait_again
    )
    insert into jobs.nudge (limit_name, limit_key)
    select distinct key.name, key.value from job cross join lateral (
        select r ->> 'name', r ->> 'key' from jobs.beside_sequence(job.rules) r where r #> '{rule,rate}' is null
        union all select '', jobs.lane(job.rules) where job.rules #> '{0,rule,sequence}' is not null
    ) key (name, value)
    where job.flags & 128 <> 0;
end
$$;

-- Cancels these jobs, waiting or running. The lease of a running attempt is then lost. Waiting jobs that another session has locked, and jobs with a
-- feature of a later version, are passed over. It waits for running jobs that are locked, in the order of `ids`, which is ascending, and before it locks
-- a waiting one: so it does not wait for a session that waits for it. If a `flag` is given, it waits for none, only jobs with this flag are cancelled,
-- and with 32 (the job expires) only before their first attempt. `fingerprint`: by default that of jobs that somebody has cancelled. `keep`: for how
-- many seconds the ended jobs are kept, unless operators have set another time.
create function jobs.cancel_jobs(
    ids bigint[], reason text, actor text, fingerprint bigint default 5113229851155308, keep float8 default 2592000, flag integer default 0
) returns table (id bigint, kind text, queue text)
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    ended_ids bigint[];
    ended_flags integer[];
    ended_rules json[];
    kinds text[];
    queues text[];
begin
    with waiting as (
        delete from jobs.ready where ctid = any(array(
            select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.ready r where r.id = wanted.id and r.flags & ~511 = 0
                   and r.flags & flag = flag and (flag <> 32 or r.attempt = 0) for update skip locked
            ) found
        ))
        returning id, run_at, lease, attempt, max_attempts, crashes, null::timestamptz as claimed_at, null::uuid as worker,
                  enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), held as (
        delete from jobs.held where ctid = any(array(
            select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select h.ctid from jobs.held h where h.id = wanted.id and h.flags & ~511 = 0
                   and h.flags & flag = flag and (flag <> 32 or h.attempt = 0) for update skip locked
            ) found
        ))
        returning id, run_at, lease, attempt, max_attempts, crashes, null::timestamptz as claimed_at, null::uuid as worker,
                  enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), running as (
        delete from jobs.running where ctid = any(array(
            select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.running r where r.id = wanted.id and r.flags & ~511 = 0 and flag = 0 for update
            ) found
            union all select found.ctid from unnest(cancel_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.running r
                where r.id = wanted.id and r.flags & ~511 = 0 and r.flags & flag <> 0 and flag <> 32 for update skip locked
            ) found
        ))
        returning id, run_at, lease, attempt, max_attempts, crashes, claimed_at, worker,
                  enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), ended as (
        insert into jobs.finished (id, run_at, lease, attempt, max_attempts, crashes, claimed_at, worker,
                                   enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules, state, expires_at)
        select job.*, 2, nullif(coalesce((
            select case when r.keep is null then 'infinity' else now() + r.keep end from jobs.retention r
            where r.state = 2 and r.kind in (job.kind, '') order by r.kind desc limit 1
        ), now() + make_interval(secs => cancel_jobs.keep)), 'infinity')
        from (select * from running union all select * from waiting union all select * from held) job
        returning id, attempt, claimed_at, worker, flags, rules, kind, queue
    ), recorded as (
        insert into jobs.job_error (job_id, attempt, started_at, worker, kind, message, fingerprint, actor)
        select id, attempt, claimed_at, worker, 'cancelled', cancel_jobs.reason, cancel_jobs.fingerprint, cancel_jobs.actor from ended
    )
    select array_agg(e.id), array_agg(e.flags), array_agg(e.rules), array_agg(e.kind), array_agg(e.queue)
    into ended_ids, ended_flags, ended_rules, kinds, queues from ended e;
    if exists (select from unnest(ended_flags) f where f & 1 <> 0) then
        perform jobs.free_permits(ended_ids, ended_flags, ended_rules, false);
        perform jobs.wake_admission();
    end if;
    -- An enqueue that has locked a key gives it to its own job.
    delete from jobs.unique_key where ctid = any(array(
        select k.ctid from unnest(ended_ids, ended_flags) e (id, flags) join jobs.unique_key k on k.job_id = e.id where e.flags & 16 <> 0 for update of k skip locked
    ));
    return query select * from unnest(ended_ids, kinds, queues);
end
$$;

-- Makes cancelled, discarded and waiting jobs available now, with at least one attempt left. Their crashes become 0, because somebody has examined them.
-- An ended job does not expire any more. The lease number becomes at least 1, because the jobs may have failures. A job with rules waits for them
-- again; in a sequence it keeps its turn. Waiting jobs that another session has locked, and jobs with a feature of a later version, are passed over. It
-- waits for ended jobs that are locked, as jobs.cancel_jobs does for running ones.
create function jobs.retry_jobs(ids bigint[]) returns setof bigint
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    retried_ids bigint[];
    held_ids bigint[];
    held_flags integer[];
    held_rules json[];
    queues text[];
begin
    with ended as (
        delete from jobs.finished where ctid = any(array(
            select found.ctid from unnest(retry_jobs.ids) as wanted(id) cross join lateral (
                select f.ctid from jobs.finished f where f.id = wanted.id and f.state in (2, 3) and f.flags & ~511 = 0 for update
            ) found
        ))
        returning id, lease, attempt, max_attempts, enqueued_at, flags & ~32 as flags, priority, kind, queue, tags, args, traceparent, rules
    ), waiting as (
        delete from jobs.ready where ctid = any(array(
            select found.ctid from unnest(retry_jobs.ids) as wanted(id) cross join lateral (
                select r.ctid from jobs.ready r where r.id = wanted.id and r.flags & ~511 = 0 for update skip locked
            ) found
        ))
        returning id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), held as (
        delete from jobs.held where ctid = any(array(
            select found.ctid from unnest(retry_jobs.ids) as wanted(id) cross join lateral (
                select h.ctid from jobs.held h where h.id = wanted.id and h.flags & ~511 = 0 for update skip locked
            ) found
        ))
        returning id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules
    ), again as (
        select id, greatest(lease, 1) as lease, least(attempt, 32766) as attempt, greatest(max_attempts, least(attempt + 1, 32767)) as max_attempts,
               enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules, is_free
        from (select *, rules is null as is_free from ended union all select *, true from waiting union all select *, false from held) job
    ), available as (
        insert into jobs.ready (id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules)
        select id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules from again where is_free
    ), held_again as (
        insert into jobs.held (id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules,
                               later, limit_name, limit_key, most)
        select id, lease, attempt, max_attempts, enqueued_at, flags, priority, kind, queue, tags, args, traceparent, rules,
               false, p.limit_name, p.limit_key, p.most
        from again cross join lateral jobs.place(again.rules) p where not is_free
    )
    select array_agg(a.id), array_agg(a.id) filter (where not a.is_free), array_agg(a.flags) filter (where not a.is_free),
           array_agg(a.rules) filter (where not a.is_free), array_agg(distinct a.queue) filter (where a.is_free)
    into retried_ids, held_ids, held_flags, held_rules, queues from again a;
    if held_ids is not null then
        perform jobs.free_permits(held_ids, held_flags, held_rules, true);
        perform jobs.wake_admission();
    end if;
    perform jobs.wake(q) from unnest(queues) q;
    return query select unnest(retried_ids);
end
$$;

-- Locks those of these jobs to which the action applies, and returns them. It waits for sessions that change them, and finds a job that has moved to
-- another table meanwhile. It locks one job after the other, in the order of the ids. So two callers that lock the same jobs do not wait for each other,
-- also if one of them inserts rows again.
create function jobs.lock_each(ids bigint[], action text) returns bigint[]
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
declare
    one bigint;
    locked bigint[] := '{}';
begin
    for one in select distinct i from unnest(ids) i where i is not null order by i loop
        for tries in 1 .. 1000 loop
            -- First the table from which admission moves a job to the other one.
            perform from jobs.held h where h.id = one and h.flags & ~511 = 0 for update;
            if not found then
                perform from jobs.ready r where r.id = one and r.flags & ~511 = 0 for update;
            end if;
            if not found and action = 'cancel' then
                perform from jobs.running r where r.id = one and r.flags & ~511 = 0 for update;
            end if;
            if not found and action = 'retry' then
                perform from jobs.finished f where f.id = one and f.state in (2, 3) and f.flags & ~511 = 0 for update;
            end if;
            if found then
                locked := array_append(locked, one);
                exit;
            end if;
            -- One statement, so that a job that moves is seen in one of the tables.
            perform where exists (select from jobs.held h where h.id = one and h.flags & ~511 = 0)
                or exists (select from jobs.ready r where r.id = one and r.flags & ~511 = 0)
                or action = 'cancel' and exists (select from jobs.running r where r.id = one and r.flags & ~511 = 0)
                or action = 'retry' and exists (select from jobs.finished f where f.id = one and f.state in (2, 3) and f.flags & ~511 = 0);
            exit when not found;
            if tries = 1000 then
                raise exception 'jobs.%: job % changes too often', action, one using errcode = '40001';
            end if;
        end loop;
    end loop;
    return locked;
end
$$;

-- Cancels, retries or reschedules jobs in the caller's transaction, and writes it to the audit. Returns how many jobs were changed. The jobs are those
-- with these ids, with this tag, or the one that has this unique key. It waits for other sessions that change the same jobs. The waiting job of a key
-- that lasts until the job starts is changed only before its first attempt.
--
-- It has the rights of the owner: a role that only enqueues must not change jobs in any other way. So the audit names the role of the session.
create function jobs.act(action text, ids bigint[], tag text, key_name text, key text, run_at timestamptz) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
#variable_conflict use_variable
declare
    actor constant text := 'role ' || session_user;
    due constant timestamptz := greatest(run_at, clock_timestamp());
    chosen bigint[] := ids;
    done bigint[];
begin
    -- The role may call this function in any way, and the audit must not say what has not happened.
    if (action in ('cancel', 'retry', 'reschedule')) is not true or (action <> 'reschedule' or run_at <= now() + interval '100 years') is not true then
        raise exception 'jobs.act: there is no action % at %', action, run_at using errcode = '22023';
    end if;
    if tag is not null then
        chosen := array(
            select h.id from jobs.held h where h.tags @> array[tag]
            union all select r.id from jobs.ready r where r.tags @> array[tag]
            union all select r.id from jobs.running r where action = 'cancel' and r.tags @> array[tag]
            union all select f.id from jobs.finished f where action = 'retry' and f.state in (2, 3) and f.tags @> array[tag]
        );
    elsif key_name is not null then
        chosen := array(
            select k.job_id from jobs.unique_key k
            where k.name = key_name and k.key = act.key and (k.until is null or k.until > clock_timestamp())
              and (not k.started or exists (select from jobs.held h where h.id = k.job_id and h.attempt = 0)
                                 or exists (select from jobs.ready r where r.id = k.job_id and r.attempt = 0))
        );
    end if;
    chosen := jobs.lock_each(chosen, action);
    if action = 'cancel' then
        done := array(select c.id from jobs.cancel_jobs(chosen, 'cancelled by ' || actor, actor) c);
    elsif action = 'retry' then
        done := array(select jobs.retry_jobs(chosen));
    else
        done := array(
            select i from unnest(chosen) i
            where jobs.replace_waiting(row('', '', i, false, null)::jobs.unique_key, '{"run_at": true}', null, due, null)
        );
    end if;
    insert into jobs.audit (actor, action, target, detail)
    select actor, action, case count(*) when 1 then 'job ' || min(i) else count(*) || ' jobs' end,
           json_strip_nulls(json_build_object('ids', json_agg(i order by i), 'argument', case action when 'reschedule' then due end))
    from unnest(done) i having count(*) > 0;
    return cardinality(done);
end
$$;

revoke execute on function jobs.act(text, bigint[], text, text, text, timestamptz) from public;

-- A part of the three functions below: finds the jobs.
create function jobs.act_on(action text, id bigint, tag text, kind text, args json, unique_by text[], run_at timestamptz) returns integer
language plpgsql volatile
as $$
#variable_conflict use_variable
declare
    unique_rule json;
begin
    if num_nonnulls(id, tag, kind) <> 1 then
        raise exception 'jobs.%: give exactly one of `id`, `tag` and `kind`', action using errcode = '22023';
    end if;
    if num_nulls(kind, args, unique_by) not in (0, 3) then
        raise exception 'jobs.%: a job of a kind is found by its unique key: give `kind`, `args` and `unique_by`, as they were given at its enqueue', action
            using errcode = '22023';
    end if;
    if kind is not null then
        unique_rule := jobs.unique_rule(kind, args, unique_by, null, null, null, null, null);
    end if;
    return jobs.act(action, array[id], tag, unique_rule ->> 'name', unique_rule ->> 'key', run_at);
end
$$;

-- Cancels waiting and running jobs, in the caller's transaction. If a job runs, its handler is told, and what it returns is not stored. Give
-- one of `id`, `tag` and `kind`. With `kind`, it is the job that has the unique key; `args` and `unique_by` are those of its enqueue, and of the arguments
-- only those of the key are needed. Returns how many jobs were cancelled: 0 if there are none, or if they have ended.
create function jobs.cancel(id bigint default null, tag text default null, kind text default null, args json default null, unique_by text[] default null)
returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    return jobs.act_on('cancel', id, tag, kind, args, unique_by, null);
end
$$;

-- Makes cancelled, discarded and waiting jobs available now, with at least one attempt left. For the parameters see jobs.cancel. A job that has ended has no
-- unique key any more. Returns how many jobs were changed.
create function jobs.retry(id bigint default null, tag text default null, kind text default null, args json default null, unique_by text[] default null)
returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    return jobs.act_on('retry', id, tag, kind, args, unique_by, null);
end
$$;

-- Sets the time of waiting jobs. They start at `run_at` or later; a time that has passed is now. For the other parameters see jobs.cancel. Returns how many
-- jobs were changed: 0 if there are none, or if they run or have ended.
create function jobs.reschedule(
    id bigint default null, run_at timestamptz default null, tag text default null, kind text default null, args json default null,
    unique_by text[] default null
) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    -- This also refuses 'infinity', which clients cannot represent.
    if (run_at <= now() + interval '100 years') is not true then
        raise exception 'jobs.reschedule: `run_at` is a time of the next hundred years, and not %', coalesce(run_at::text, 'null') using errcode = '22023';
    end if;
    return jobs.act_on('reschedule', id, tag, kind, args, unique_by, run_at);
end
$$;

insert into jobs.schema_migration (version, name, oldest_program) values (1, 'jobs', 1);
