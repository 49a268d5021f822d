-- The functions with which SQL enqueues jobs, and the notifications that they send to idle workers.

-- All notifications of workers are sent here. The server keeps notifications until every session that listens has read them, and a session reads none
-- while it is in a transaction. If its queue is full (8 GB), every transaction that has notified fails at its commit. So none is sent while a
-- quarter of the queue is in use: workers find the jobs at their next poll, and the applications' own notifications have the rest.
--
-- The server replaces calls of this function by its body. So it names the schema of each function and operator: the caller's `search_path` applies.
create function jobs.notify_workers(queue text) returns void
language sql volatile
as $$
    select case when pg_catalog.pg_notification_queue_usage() operator(pg_catalog.<) 0.25 then pg_catalog.pg_notify('jobs', queue) end
$$;

-- Enqueues the job of a rule for a job that is discarded by the same statement. If the database refuses it, because of a
-- trigger of the application or a rule that was changed by hand, the job is discarded without it, and a failure of the job
-- says so. Otherwise the job could never end, and a rescue could free no other job.
create function jobs.enqueue_for_discarded(rule jobs.on_discarded, job_id bigint, attempt smallint, discarded json) returns bigint
language plpgsql volatile
as $$
declare
    args json;
begin
    -- The arguments are joined as text, which is compact and ends with a brace. jsonb would refuse '\u0000' in them, and
    -- write long numbers out.
    args := (left(rule.args::text, -1) || case rule.args::text when '{}' then '' else ',' end || to_json(rule.argument) || ':' || discarded || '}')::json;
    -- Its rules are stored with their keys, so they are not made of its arguments, as jobs.enqueue would do it.
    if rule.rules is not null or rule.expires is not null then
        return (select t.id from jobs.enqueue_unique(
            array[null::text], array[null::text], array[null::boolean], array[null::float8], array[null::json],
            array[rule.enqueues], array[rule.queue], array[rule.priority], array[interval '0'], array[null::timestamptz],
            array[rule.max_attempts::smallint], array[null::text], array[args], array[null::text], array[rule.rules], array[rule.expires]
        ) t);
    end if;
    return jobs.enqueue(
        kind => rule.enqueues,
        args => args,
        queue => rule.queue,
        priority => rule.priority,
        max_attempts => rule.max_attempts
    );
exception when others then
    -- After conflicts, and if the server lacks resources or ends, the whole statement is tried again.
    if left(sqlstate, 2) in ('40', '53', '55', '57', '58') then
        raise;
    end if;
    insert into jobs.job_error (job_id, attempt, kind, message)
    values (enqueue_for_discarded.job_id, enqueue_for_discarded.attempt, 'error',
            'the job `' || rule.enqueues || '` for this discarded job was refused: ' || left(sqlerrm, 2000));
    return null;
end
$$;

-- Notifies the idle workers of this queue when the transaction commits. It sends no notification while no worker of the
-- queue is idle, because NOTIFY takes a lock that all committing transactions of the server share. It also sends none
-- if `jobs.notify` is `off`, because a transaction that has executed NOTIFY cannot be prepared for a two-phase commit.
create function jobs.wake(queue text) returns void
language plpgsql volatile
as $$
begin
    perform jobs.notify_workers(wake.queue)
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(wake.queue) & 1023) = 1);
end
$$;

-- Wakes the workers that admit held jobs, when the transaction commits: a notification without a queue. It sends none while no
-- worker is idle: see jobs.wake. The workers also read the settings of operators then.
create function jobs.wake_admission() returns void
language plpgsql volatile
as $$
begin
    perform jobs.notify_workers('')
    where current_setting('jobs.notify', true) is distinct from 'off' and exists (select from jobs.worker where idle);
end
$$;

-- Tells the idle workers that an operator may have changed a setting, also by hand. They then read all settings. Workers that are not idle read them
-- once a second. Whether a worker is idle is not asked: one may become idle before the transaction commits. Settings change rarely.
create function jobs.wake_for_settings() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobs.notify_workers('') where current_setting('jobs.notify', true) is distinct from 'off';
    return null;
end
$$;

create trigger wake_for_settings after insert or update or delete on jobs.queue for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.kind for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.limit_setting for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.retention for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.installation for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert or update or delete on jobs.on_discarded for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after insert on jobs.operation for each statement execute function jobs.wake_for_settings();
create trigger wake_for_settings after update of asked on jobs.worker for each statement execute function jobs.wake_for_settings();
-- Not after a tick, which changes only `last_tick`, `last_job` and `last_run_at`.
create trigger wake_for_settings after insert or delete or update of kind, expression, timezone, catch_up, paused, args, queue, priority, max_attempts
    on jobs.schedule for each statement execute function jobs.wake_for_settings();

-- Whether JSON is nested deeper than the readers of workers accept. Only arguments with more brackets than that are looked at: without strings and
-- all else, each round removes the innermost brackets.
create function jobs.is_too_deep(args text) returns boolean
language plpgsql immutable
as $$
declare
    brackets text;
begin
    if length(args) - length(translate(args, '[{', '')) <= 127 then
        return false;
    end if;
    brackets := regexp_replace(args, E'"([^"\\\\]|\\\\.)*"', '', 'g');
    brackets := translate(regexp_replace(brackets, '[^][{}]', '', 'g'), '{}', '[]');
    for level in 1..127 loop
        brackets := replace(brackets, '[]', '');
    end loop;
    return brackets <> '';
end
$$;

-- Enqueues a job from SQL, psql or a trigger. Returns its id.
-- `concurrency`: at most this many jobs of the same limit and key run at once.
-- `limit_name`: the name of the limit. Default: the kind, without the version of its arguments.
-- `by`: the arguments whose values are the key. Default: all jobs of the limit have one key.
-- `sequence`: the jobs run one after the other, in the order of their ids. 'halt' or 'skip' says what happens when the job is discarded.
-- `rate`, `per`, `burst`: at most `rate` jobs start in the period `per`, and at most `burst` at once. Default of `burst`: the starts of a tenth of a
-- second, at least 1.
-- `limits`: one or more further limits; the job starts when all of them allow it. It is a JSON list of objects. Each object has some of
-- `concurrency`, `by`, `limit_name`, `sequence`, `rate`, `per`, `burst` and, if the job has no other rule, `on_full`:
-- '[{"concurrency": 2, "by": ["account_id"], "limit_name": "account"}, {"rate": 100, "per": "1 minute", "limit_name": "stripe"}]'.
-- `on_full`: what happens if the limit is full. 'wait' (default), 'discard' (the job is discarded), 'cancel_oldest' (the oldest job of its key is cancelled).
-- `fair_by`: the arguments whose values are the tenant of the job. The tenants that wait for the limit take turns. It needs `concurrency`.
-- `unique_by`: the arguments whose values are the unique key of the job. '{}': all arguments.
-- `unique_within`: how long the job has the key at most. Default: no limit. `unique_until`: 'finished' (default) or 'started'.
-- `on_conflict`: what happens if another job has the key. 'keep' (default): that job is not changed, and its id is returned. 'replace': its
-- arguments, time and priority are replaced if it waits, or only some of them: 'replace(args, run_at)'. 'run_again': its arguments are replaced if it
-- waits; otherwise one more job is inserted, which starts after it has ended. 'error': an exception with the code JU001.
-- `debounce`, `debounce_max`: the job starts when no other enqueue with its unique key has come for `debounce`, and at the latest `debounce_max` after
-- the first one, with the newest arguments. An enqueue after its start inserts another job.
-- `expires`: the job is cancelled if its first attempt has not started within this time after it is due. Default: it does not expire.
--
-- Whatever the planner settings of the application's session are, its statements are not compiled: that would take longer than they do. And whatever
-- its `search_path` is, functions and operators are those of the server. The functions that this one calls have both settings from it. The rules of a
-- job that has none are not asked for: the two calls would take as long as setting `search_path`.
create function jobs.enqueue(
    kind text,
    args json default '{}',
    queue text default 'default',
    priority integer default 0,
    run_at timestamptz default null,
    max_attempts integer default 25,
    tags text[] default null,
    concurrency integer default null,
    by text[] default null,
    limit_name text default null,
    sequence text default null,
    unique_by text[] default null,
    unique_within interval default null,
    unique_until text default null,
    on_conflict text default null,
    rate integer default null,
    per interval default null,
    burst integer default null,
    expires interval default null,
    limits json default null,
    on_full text default null,
    fair_by text[] default null,
    debounce interval default null,
    debounce_max interval default null
) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp set jit = off
as $$
declare
    new_id bigint;
    rules json;
    unique_rule json;
    taken record;
    place record;
begin
    if coalesce(enqueue.kind, '') = '' or coalesce(enqueue.queue, '') = '' then
        raise exception 'jobs.enqueue: kind and queue must not be empty' using errcode = '22023';
    end if;
    if octet_length(enqueue.kind) > 200 or octet_length(enqueue.queue) > 200 then
        raise exception 'jobs.enqueue: kind and queue must not be longer than 200 bytes' using errcode = '22023';
    end if;
    if strpos(enqueue.queue, '*') > 0 then
        raise exception 'jobs.enqueue: the queue % contains *, which stands for any characters where a worker names its queues', enqueue.queue
            using errcode = '22023';
    end if;
    if (enqueue.max_attempts between 1 and 32767) is not true then
        raise exception 'jobs.enqueue: max_attempts of job % must be from 1 to 32767', enqueue.kind using errcode = '22023';
    end if;
    if (enqueue.priority between -32768 and 32767) is not true then
        raise exception 'jobs.enqueue: priority of job % must be from -32768 to 32767', enqueue.kind using errcode = '22023';
    end if;
    -- This also refuses 'infinity', which clients cannot represent.
    if enqueue.run_at > now() + interval '100 years' then
        raise exception 'jobs.enqueue: job % would start more than a hundred years from now', enqueue.kind using errcode = '22023';
    end if;
    if array_position(enqueue.tags, null) is not null or cardinality(enqueue.tags) > 32 then
        raise exception 'jobs.enqueue: job % takes at most 32 tags, none of them null', enqueue.kind using errcode = '22023';
    end if;
    if octet_length(enqueue.args::text) > 262144 then
        raise exception 'jobs.enqueue: the arguments of job % take more than 262144 bytes', enqueue.kind using errcode = '22023';
    end if;
    if jobs.is_too_deep(enqueue.args::text) then
        raise exception 'jobs.enqueue: the arguments of job % are nested more than 127 levels deep, and no worker could read them', enqueue.kind
            using errcode = '22023';
    end if;
    if extract(epoch from enqueue.expires) not between 0.001 and extract(epoch from interval '100 years') then
        raise exception 'jobs.enqueue: `expires` of job % must be from a millisecond to a hundred years', enqueue.kind using errcode = '22023';
    end if;
    -- JSON may contain an escaped NUL character, and no text may.
    if enqueue.limits::text ~ E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000' then
        raise exception E'jobs.enqueue: `limits` of job % must not contain the NUL character (\\u0000)', enqueue.kind using errcode = '22023';
    end if;
    if num_nonnulls(enqueue.concurrency, enqueue.by, enqueue.limit_name, enqueue.sequence, enqueue.rate, enqueue.per, enqueue.burst, enqueue.on_full) > 0 then
        rules := jobs.rule(enqueue.kind, enqueue.args, enqueue.concurrency, enqueue.by, enqueue.limit_name, enqueue.sequence, enqueue.rate, enqueue.per,
                           enqueue.burst, enqueue.on_full);
    end if;
    rules := case when enqueue.limits is not null then jobs.rules(enqueue.kind, enqueue.args, rules, enqueue.limits)
                  when rules is not null then json_build_array(rules) end;
    if enqueue.fair_by is not null then
        rules := jobs.with_tenant(enqueue.kind, enqueue.args, rules, enqueue.fair_by);
    end if;
    if num_nonnulls(enqueue.unique_by, enqueue.unique_within, enqueue.unique_until, enqueue.on_conflict, enqueue.debounce, enqueue.debounce_max) > 0 then
        unique_rule := jobs.unique_rule(enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.unique_by, enqueue.unique_within, enqueue.unique_until,
                                        enqueue.on_conflict, enqueue.debounce, enqueue.debounce_max);
        enqueue.run_at := coalesce(enqueue.run_at, clock_timestamp() + make_interval(secs => (unique_rule ->> 'quiet')::float8));
    end if;
    if (unique_rule ->> 'again')::boolean then
        if rules is not null then
            raise exception 'jobs.enqueue: job % has `on_conflict` run_again, which makes a sequence, and one of `concurrency`, `sequence` and `rate`', enqueue.kind
                using errcode = '22023';
        end if;
        rules := json_build_array(json_build_object(
            'name', unique_rule ->> 'name', 'key', unique_rule ->> 'key', 'rule', json_build_object('sequence', json_build_object('on_discard', 'skip'))
        ));
    end if;
    if enqueue.expires is not null then
        select t.id, t.outcome into taken from jobs.enqueue_unique(
            array[unique_rule ->> 'name'], array[unique_rule ->> 'key'], array[(unique_rule ->> 'started')::boolean], array[(unique_rule ->> 'within')::float8],
            array[unique_rule],
            array[enqueue.kind], array[enqueue.queue], array[enqueue.priority::smallint], array[interval '0'], array[enqueue.run_at],
            array[enqueue.max_attempts::smallint], array[enqueue.tags::text], array[coalesce(enqueue.args, '{}')], array[null::text], array[rules], array[enqueue.expires]
        ) t;
    elsif unique_rule is not null then
        select t.id, t.outcome into taken from jobs.enqueue_unique_one(
            unique_rule ->> 'name', unique_rule ->> 'key', unique_rule, enqueue.kind, enqueue.queue, enqueue.priority::smallint, greatest(enqueue.run_at, clock_timestamp()),
            enqueue.max_attempts::smallint, enqueue.tags, coalesce(enqueue.args, '{}'), null, rules
        ) t;
    end if;
    if taken is not null then
        if taken.outcome = 3 then
            raise exception 'jobs.enqueue: job % has the unique key % of job % already', taken.id, unique_rule ->> 'key', enqueue.kind using errcode = 'JU001';
        end if;
        return taken.id;
    end if;
    if rules is not null then
        select * into place from jobs.place(rules);
        insert into jobs.held as h (kind, args, queue, priority, run_at, max_attempts, tags, rules, limit_name, limit_key, most, flags, later)
        values (
            enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.queue, enqueue.priority::smallint,
            greatest(enqueue.run_at, clock_timestamp()), enqueue.max_attempts::smallint, enqueue.tags,
            rules, place.limit_name, place.limit_key, place.most, jobs.flags(rules),
            coalesce(enqueue.run_at > clock_timestamp(), false)
        )
        returning h.id into new_id;
        insert into jobs.nudge (limit_name, limit_key, place, run_at)
        values (place.limit_name, place.limit_key, ~enqueue.priority::smallint, statement_timestamp());
        perform jobs.wake_admission();
        return new_id;
    end if;
    insert into jobs.ready as r (kind, args, queue, priority, run_at, max_attempts, tags)
    values (
        enqueue.kind, coalesce(enqueue.args, '{}'), enqueue.queue, enqueue.priority::smallint,
        greatest(enqueue.run_at, clock_timestamp()), enqueue.max_attempts::smallint, enqueue.tags
    )
    returning r.id into new_id;
    perform jobs.wake(enqueue.queue);
    return new_id;
end
$$;

-- Enqueues the job of row `number` of jobs.dead_letter as a new job, and deletes the row. The new job is due now, with
-- all its attempts and a new id. Returns the new id.
create function jobs.put_back(number bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    letter jobs.dead_letter;
    arguments json;
    labels text[];
    rules json;
    place record;
    new_id bigint;
begin
    delete from jobs.dead_letter where dead_letter.number = put_back.number returning * into letter;
    if letter is null then
        raise exception 'jobs.put_back: there is no number % in jobs.dead_letter', put_back.number using errcode = '02000';
    end if;
    if letter.job -> 'state' is not null then
        raise exception 'jobs.put_back: job % has ended, and this is its history: to drop it, delete from jobs.dead_letter where number = %',
            letter.id, letter.number using errcode = '22023';
    end if;
    arguments := case json_typeof(letter.job -> 'args')
        when 'null' then (select payload.args from jobs.payload where payload.job_id = letter.id)
        else letter.job -> 'args' end;
    labels := case json_typeof(letter.job -> 'tags') when 'array' then array(select json_array_elements_text(letter.job -> 'tags')) end;
    if json_typeof(letter.job -> 'rules') = 'array' then
        rules := letter.job -> 'rules';
        select * into place from jobs.place(rules);
        insert into jobs.held as h (kind, args, queue, priority, max_attempts, tags, rules, limit_name, limit_key, most, flags)
        values (
            letter.kind, coalesce(arguments, '{}'), letter.queue, (letter.job ->> 'priority')::smallint,
            greatest((letter.job ->> 'max_attempts')::smallint, 1::smallint), labels,
            rules, place.limit_name, place.limit_key, place.most, jobs.flags(rules)
        )
        returning h.id into new_id;
        insert into jobs.nudge (limit_name, limit_key) values (place.limit_name, place.limit_key);
        perform jobs.wake_admission();
        return new_id;
    end if;
    return jobs.enqueue(
        kind => letter.kind,
        args => arguments,
        queue => letter.queue,
        priority => (letter.job ->> 'priority')::integer,
        max_attempts => greatest((letter.job ->> 'max_attempts')::integer, 1),
        tags => labels
    );
end
$$;
