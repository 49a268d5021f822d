-- Unique jobs: which job has a key, and what happens to an enqueue that finds the key taken.

-- The unique keys of jobs. A row says which job has the key. That job has it for as long as it waits or runs (`started`: for as long
-- as it waits for its first attempt), and at most until `until`. Otherwise the row is without effect, and the next enqueue with the key
-- gives it to its own job. The statement that ends a job deletes the row. It passes over a row that an enqueue has locked, so that
-- it never waits for a transaction of the application.
--
-- The collation "C" compares bytes. Other collations would make each insert slower.
create table jobs.unique_key (
    name text collate "C" not null,
    key text collate "C" not null,
    job_id bigint not null,
    started boolean not null,
    until timestamptz,
    primary key (name, key)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index unique_key_job on jobs.unique_key (job_id);

-- A part of jobs.take_key: a job that was admitted, and now has another time. It waits for its limit again: a job that is scheduled has no permit. In
-- a sequence it keeps its turn. The row was deleted from jobs.ready.
create function jobs.hold_again(job jobs.ready, at timestamptz) returns void
language plpgsql volatile
as $$
declare
    rules constant json := job.rules;
begin
    if job.flags & 32 <> 0 then
        update jobs.expiry e set start_by = at + e.after where e.job_id = job.id;
    end if;
    delete from jobs.permit s where s.job_id = job.id and (rules #> '{0,rule,sequence}' is null or s.limit_name <> rules #>> '{0,name}');
    insert into jobs.held (id, run_at, enqueued_at, lease, flags, priority, attempt, max_attempts, crashes, most, later, kind, queue, limit_name, limit_key,
                           tags, args, traceparent, rules)
    select job.id, at, job.enqueued_at, job.lease, job.flags, job.priority, job.attempt, job.max_attempts, job.crashes, p.most,
           at > clock_timestamp(), job.kind, job.queue, p.limit_name, p.limit_key, job.tags, job.args, job.traceparent, rules
    from jobs.place(rules) p;
    insert into jobs.nudge (limit_name, limit_key)
    select r ->> 'name', r ->> 'key' from json_array_elements(rules) r
    union select '', jobs.lane(rules) where job.flags & 128 <> 0;
    perform jobs.wake_admission();
end
$$;

-- A part of jobs.take_key: changes the job that has the key, if it waits. The row is deleted and inserted again, because no
-- statement updates the row of a job. So a claim passes over the job until this transaction ends, and then it has the new arguments.
create function jobs.replace_waiting(holder jobs.unique_key, rule json, args json, run_at timestamptz, priority smallint) returns boolean
language plpgsql volatile
as $$
declare
    held jobs.held;
    ready jobs.ready;
    with_args constant boolean := (rule ->> 'args')::boolean;
    with_run_at constant boolean := (rule ->> 'run_at')::boolean;
    with_priority constant boolean := (rule ->> 'priority')::boolean;
    quiet constant interval := make_interval(secs => (rule ->> 'quiet')::float8);
    longest constant interval := make_interval(secs => (rule ->> 'max')::float8);
    at timestamptz;
begin
    -- First the table from which admission moves a job to the other one.
    delete from jobs.held h where h.id = holder.job_id and (h.attempt = 0 or not holder.started) returning h.* into held;
    if held.id is not null then
        if with_args then
            delete from jobs.payload p where p.job_id = held.id;
            held.args := replace_waiting.args;
        end if;
        held.priority := case when with_priority then replace_waiting.priority else held.priority end;
        held.run_at := case when quiet is not null then least(clock_timestamp() + quiet, held.enqueued_at + longest)
                            when with_run_at then replace_waiting.run_at else held.run_at end;
        held.later := held.run_at > clock_timestamp();
        if held.flags & 32 <> 0 then
            update jobs.expiry e set start_by = held.run_at + e.after where e.job_id = held.id;
        end if;
        -- A job that waits at one of several rules begins again with its turn or in its lane: see the trigger check_rules.
        insert into jobs.nudge (limit_name, limit_key)
        select held.limit_name, held.limit_key
        union select held.rules #>> '{0,name}', held.rules #>> '{0,key}'
        union select '', jobs.lane(held.rules) where held.flags & 128 <> 0;
        insert into jobs.held select held.*;
        perform jobs.wake_admission();
        return true;
    end if;
    delete from jobs.ready r where r.id = holder.job_id and (r.attempt = 0 or not holder.started) returning r.* into ready;
    if ready.id is null then
        return false;
    end if;
    if with_args then
        delete from jobs.payload p where p.job_id = ready.id;
        ready.args := replace_waiting.args;
    end if;
    ready.priority := case when with_priority then replace_waiting.priority else ready.priority end;
    at := case when quiet is not null then least(clock_timestamp() + quiet, ready.enqueued_at + longest)
               when with_run_at then replace_waiting.run_at else ready.run_at end;
    if ready.rules is not null and at > clock_timestamp() then
        perform jobs.hold_again(ready, at);
        return true;
    end if;
    -- A claim would find an earlier time than now only after a rescan.
    ready.run_at := greatest(clock_timestamp(), at);
    if ready.flags & 32 <> 0 and (quiet is not null or with_run_at) then
        update jobs.expiry e set start_by = ready.run_at + e.after where e.job_id = ready.id;
    end if;
    insert into jobs.ready select ready.*;
    perform jobs.wake(ready.queue);
    return true;
end
$$;

-- Takes a unique key for a new job. `again`: also from a job that runs. `outcome`:
-- 0: the new job `id` has the key. The caller inserts this job.
-- 1: the job `id` has the key, and was not changed.
-- 2: the job `id` has the key, and was changed.
-- 3: the job `id` has the key, and the rule is `error`.
--
-- The insert of the key decides. It waits for another transaction that has inserted the same key and is still open. Each statement
-- has a snapshot of its own, so it sees what the transaction that it has waited for has committed. No statement of a worker
-- takes a key, so a retry or a rescue cannot fail because of one.
create function jobs.take_key(
    name text, key text, rule json, args json, run_at timestamptz, priority smallint, out id bigint, out outcome smallint
)
language plpgsql volatile set enable_seqscan = off set jit = off
as $$
declare
    own_name constant text := take_key.name;
    own_key constant text := take_key.key;
    starts constant boolean := (rule ->> 'started')::boolean;
    fails constant boolean := (rule ->> 'error')::boolean;
    again constant boolean := coalesce((rule ->> 'again')::boolean, false);
    replaces constant boolean := (rule ->> 'args')::boolean or (rule ->> 'run_at')::boolean or (rule ->> 'priority')::boolean;
    until_time constant timestamptz := clock_timestamp() + make_interval(secs => (rule ->> 'within')::float8);
    holder jobs.unique_key;
    waits boolean;
    runs boolean;
begin
    for attempt in 1 .. 1000 loop
        insert into jobs.unique_key as u (name, key, job_id, started, until)
        values (own_name, own_key, nextval('jobs.job_id'), starts, until_time)
        on conflict do nothing returning u.job_id into take_key.id;
        if found then
            outcome := 0;
            return;
        end if;
        select * into holder from jobs.unique_key u where u.name = own_name and u.key = own_key;
        continue when not found;
        id := holder.job_id;
        if holder.until is null or holder.until > clock_timestamp() then
            if replaces then
                if jobs.replace_waiting(holder, rule, args, run_at, priority) then
                    outcome := 2;
                    return;
                end if;
            elsif holder.started and not fails then
                -- The job must not start before this transaction commits: it would not see what this transaction has written.
                perform from jobs.held h where h.id = holder.job_id and h.attempt = 0 for key share;
                if not found then
                    perform from jobs.ready r where r.id = holder.job_id and r.attempt = 0 for key share;
                end if;
                if found then
                    outcome := 1;
                    return;
                end if;
            end if;
            -- One statement, so that a job that moves from one table to another is seen in one of them.
            select exists (select from jobs.held h where h.id = holder.job_id and (h.attempt = 0 or not holder.started))
                or exists (select from jobs.ready r where r.id = holder.job_id and (r.attempt = 0 or not holder.started)),
                not holder.started and exists (select from jobs.running r where r.id = holder.job_id)
            into waits, runs;
            -- It has moved meanwhile.
            continue when waits and (replaces or holder.started and not fails);
            -- Otherwise the new job gets the key. It is in a sequence behind the running one.
            if waits or runs and not again then
                outcome := case when fails then 3 else 1 end;
                return;
            end if;
        end if;
        update jobs.unique_key u set job_id = nextval('jobs.job_id'), started = starts, until = until_time
        where u.name = own_name and u.key = own_key and u.job_id = holder.job_id
        returning u.job_id into take_key.id;
        if found then
            outcome := 0;
            return;
        end if;
    end loop;
    raise exception 'jobs.take_key: the job with the unique key % of % changes too often', own_key, own_name using errcode = '40001';
end
$$;

-- The same for the jobs of a statement. A job whose name is null has no key. The keys are distinct, and in the same order in all
-- statements. If a rule says that a key is an error, no key is taken: the outcome is 3 for this job and 4 for the others.
-- Usually no other job has one of the keys. Then the rules are not read: that would take longer than the insert.
create function jobs.take_keys(
    names text[], keys text[], started boolean[], within float8[], rules json[], args json[], run_ats timestamptz[], priorities smallint[],
    out ids bigint[], out outcomes smallint[]
)
language plpgsql volatile
as $$
declare
    wanted constant bigint := (select count(*) from unnest(names) as name where name is not null);
    inserted bigint;
    own bigint[];
    taken record;
    failed integer;
begin
    for attempt in 1 .. 10 loop
        -- The keys that it has taken are given back if it begins again.
        begin
            ids := array(select nextval('jobs.job_id') from generate_series(1, cardinality(names)));
            outcomes := array_fill(0::smallint, array[cardinality(names)]);
            own := '{}';
            if attempt = 1 then
                insert into jobs.unique_key (name, key, job_id, started, until)
                select w.name, w.key, w.id, w.started, clock_timestamp() + make_interval(secs => w.within)
                from unnest(names, keys, ids, started, within) as w (name, key, id, started, within) where w.name is not null
                on conflict do nothing;
                get diagnostics inserted = row_count;
                exit when inserted = wanted;
                own := array(select u.job_id from jobs.unique_key u where u.job_id = any(ids));
            end if;
            for number in 1 .. cardinality(names) loop
                continue when names[number] is null or ids[number] = any(own);
                select t.id, t.outcome into taken
                from jobs.take_key(names[number], keys[number], rules[number], args[number], run_ats[number], priorities[number]) t;
                ids[number] := taken.id;
                outcomes[number] := taken.outcome;
                if taken.outcome = 3 then
                    failed := number;
                    raise exception 'jobs.take_keys: a key is taken' using errcode = 'JU001';
                end if;
            end loop;
            exit;
        exception
            when sqlstate 'JU001' then
                outcomes := array(select case when number = failed then 3 else 4 end::smallint from generate_series(1, cardinality(names)) as number);
                exit;
            -- A key that another job had was released and taken by another statement meanwhile, so the order was lost. The next attempt takes
            -- the keys one by one in their order.
            when deadlock_detected then
                if attempt = 10 then
                    raise;
                end if;
        end;
    end loop;
end
$$;
