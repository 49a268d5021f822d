-- Held jobs, which wait for a limit, for their turn in a sequence or for a token of a rate, and the tables from which admission learns when
-- they may start.

-- Whether admission can compute with this rate. The planner inserts it into the expressions that call it.
create function jobs.is_possible(rate json) returns boolean
language sql immutable
as $$
    select coalesce(
        (rate ->> 'limit')::integer > 0 and (rate ->> 'burst')::integer between 1 and 10000 and (rate ->> 'per')::bigint between 1000 and 31622400000000
        and (rate ->> 'per')::bigint * (rate ->> 'burst')::integer / (rate ->> 'limit')::integer <= 3155760000000000, false)
$$;

-- Whether admission can compute with these rules.
create function jobs.are_possible(rules json) returns boolean
language sql immutable
as $$
    select count(*) between 1 and 4 and bool_and(coalesce(
        octet_length(r ->> 'name') between 1 and 200 and octet_length(r ->> 'key') <= 200
        and case
            when r #> '{rule,rate}' is not null then jobs.is_possible(r #> '{rule,rate}')
            when r #> '{rule,sequence}' is not null then place = 1
            else (r #>> '{rule,concurrency,most}')::integer > 0
        end, false))
    from json_array_elements(case json_typeof(rules) when 'array' then rules else '[]' end) with ordinality as each (r, place)
$$;

-- The lane of jobs with these rules: the names and keys as a JSON list, or its hash. A sequence is not among them, and a 1 follows the key of a
-- rate. The function `lane` in `jobs-core/src/rules/list.rs` makes the same.
create function jobs.lane(rules json) returns text
language sql immutable
as $$
    select case when octet_length(t.text) <= 200 then t.text else 'sha256:' || encode(sha256(convert_to(t.text, 'UTF8')), 'hex') end
    from (
        select '[' || string_agg(
            to_json(r ->> 'name')::text || ',' || to_json(r ->> 'key')::text || case when r #> '{rule,rate}' is null then '' else ',1' end,
            ',' order by r ->> 'name' collate "C"
        ) || ']' as text
        from json_array_elements(rules) r where r #> '{rule,sequence}' is null
    ) t
$$;

-- Where a job with these rules waits first: for its turn in a sequence, else at its only rule, else in its lane. The planner inserts it into the
-- statements that call it.
create function jobs.place(rules json) returns table (limit_name text, limit_key text, most integer)
language sql immutable
as $$
    select case when lane.is then '' else rules #>> '{0,name}' end, case when lane.is then jobs.lane(rules) else rules #>> '{0,key}' end,
           case when lane.is then 1 else coalesce(rules #>> '{0,rule,concurrency,most}', rules #>> '{0,rule,rate,limit}', '1')::integer end
    from (select json_array_length(rules) > 1 and rules #> '{0,rule,sequence}' is null as is) lane
$$;

-- Whether an index of jobs.held has had an entry since it was made. Looking for an entry would read those of all jobs that have left, until a vacuum.
create function jobs.is_used(index text) returns boolean
language sql volatile
as $$
    select coalesce(pg_relation_size(to_regclass(index)) > current_setting('block_size')::integer, true)
$$;

-- The rule with this name.
create function jobs.rule_of(rules json, name text) returns json
language sql immutable
as $$
    select r from json_array_elements(rules) r where r ->> 'name' = name limit 1
$$;

-- Jobs that wait until their limit admits them. Only admission moves a job from here to jobs.ready.
create table jobs.held (
    id bigint not null default nextval('jobs.job_id'),
    run_at jobs.instant not null default clock_timestamp(),
    enqueued_at jobs.instant not null default clock_timestamp(),
    lease jobs.integer_from_0 not null default 0,
    flags integer not null default 1,
    priority smallint not null default 0,
    attempt jobs.smallint_from_0 not null default 0,
    max_attempts jobs.smallint_from_1 not null default 25,
    crashes jobs.smallint_from_0 not null default 0,
    -- The next rule for which it waits, with its key, and how many jobs may run at once there. For a job that waits in a lane, the name is empty.
    -- `limit_name` and `limit_key` are beside the other texts.
    most integer not null,
    -- Whether it is not due yet. An index finds such jobs when they become due. Then admission sets it to false.
    later boolean not null default false,
    -- Whether admission has found its queue or its kind paused. After a resume, an index finds such jobs.
    paused boolean not null default false,
    kind text collate "C" not null,
    queue text collate "C" not null default 'default',
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    tags jobs.tags,
    args json,
    traceparent text,
    rules json not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 50000
);

-- In the order of admission. A full key does not delay other keys, because each has its own range. Jobs that may not start
-- now are in other indexes, so that admission does not read them repeatedly. `~priority` is the descending order of the priorities. So
-- all columns have the same direction, and a scan can begin at any row.
create unique index held_order on jobs.held (limit_name, limit_key, (~priority), run_at, id) where not later and not paused and flags & 12 = 0;

-- A sequence is admitted in the order of the ids. A job that is not due stops those behind it.
create index held_sequence on jobs.held (limit_name, limit_key, id) where flags & 4 <> 0;

-- Jobs with a rate, in the order of admission.
create index held_rate on jobs.held (limit_name, limit_key, (~priority), run_at, id) where not later and not paused and flags & 8 <> 0;

-- Jobs with tenants, in the order of admission of each tenant. They are in held_order, too, by which their keys are found and counted.
create index held_fair on jobs.held (limit_name, limit_key, ((rules #>> '{0,tenant}') collate "C"), (~priority), run_at, id)
    where not later and not paused and flags & 256 <> 0;

-- For a search by id. It is unique and has all rows, because a subscriber of logical replication finds rows by it. An id alone is not unique
-- after an earlier value of the sequence was restored, and then an enqueue must not fail.
create unique index held_id on jobs.held (id, enqueued_at);
alter table jobs.held replica identity using index held_id;
create index held_later on jobs.held (run_at, id) where later;

-- The jobs with several limits. The second index has those that wait at one of their limits: the first jobs of their lanes.
create index held_several on jobs.held (id) where flags & 128 <> 0;
create index held_from_lane on jobs.held ((jobs.lane(rules) collate "C")) where flags & 132 = 128 and limit_name <> '';

-- The jobs that do not wait if their limit is full, before their first attempt. The limits and the rates have ranges of their own.
create index held_on_full on jobs.held (limit_name, limit_key, (flags & 8), (~priority), run_at, id)
    where flags & 64 <> 0 and lease = 0 and not later and not paused;
create index held_paused on jobs.held (queue, kind) where paused;

-- As for jobs.ready: without these statistics a search by id would read the whole table after a vacuum of the empty one.
alter table jobs.held alter column id set (n_distinct = 1000000000);
insert into jobs.held (id, kind, args, most, limit_name, limit_key, rules) select id, '', '{}', 1, '', '', '[]' from generate_series(1, 100) id;
analyze jobs.held (id);
delete from jobs.held;

-- Refuses jobs with a rate or with several rules if admission could not compute with their numbers. Each inserted job with several rules
-- first waits for its turn or in its lane. It is a trigger and no constraint. The server prepares the expression of a constraint again in
-- each statement, and that takes a third of the time of an enqueue.
create function jobs.check_rules() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not (case when new.flags & 128 = 0 then jobs.is_possible(new.rules #> '{0,rule,rate}') and json_array_length(new.rules) = 1
                else jobs.are_possible(new.rules) and json_array_length(new.rules) > 1 end) then
        raise exception 'jobs.held: the rules of job % are not possible: %', new.id, new.rules using errcode = '23514';
    end if;
    if new.flags & 128 <> 0 then
        select p.limit_name, p.limit_key, p.most into new.limit_name, new.limit_key, new.most from jobs.place(new.rules) p;
        new.flags := new.flags & ~12 | case when new.rules #> '{0,rule,sequence}' is null then 0 else 4 end;
    end if;
    return new;
end
$$;

create trigger check_rules before insert on jobs.held
    for each row when (new.flags & 136 <> 0) execute function jobs.check_rules();

create trigger set_payload_aside before insert on jobs.held
    for each row when (pg_column_size(new.args) > 2000 or new.args is null and new.lease = 0) execute function jobs.set_payload_aside();

-- Where admission begins to read, for keys from which it has taken many jobs. Until a vacuum, the indexes still have the entries of these jobs
-- and of their permits. Reading them again in each pass would take longer than the pass. `floors` has for each such key the place in held_order below
-- which there is no job, for a sequence the id below which there is none, and the number below which there is no permit. Only admission writes it,
-- with its lock. A new version is a new row with a higher number, and not an update. So the newest one is found at once, even if an old snapshot
-- keeps the others.
create table jobs.admission_floor (
    number bigint primary key,
    floors json not null,
    -- No row of jobs.rate has an earlier `next_at`.
    next_at timestamptz not null default '-infinity'
) with (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- The number of the newest floors. New permits have it. Like the parts of jobs.admit, it is not in the language sql: the server would plan it again
-- for each statement that calls it.
create function jobs.floor_number() returns bigint
language plpgsql stable
as $$
begin
    return coalesce((select f.number from jobs.admission_floor f order by f.number desc limit 1), 0);
end
$$;

-- One row for each job with a limit in jobs.ready and jobs.running. Only admission inserts a row. The statement that moves the job
-- away deletes it. So the number of rows of a key cannot drift from the number of its jobs. A job of a sequence keeps its permit until it
-- has ended, and while it is held before its next attempt.
create table jobs.permit (
    job_id bigint not null,
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    -- When the job was discarded, which halts its sequence. The row stays, even when the job is deleted, until the job is retried or an
    -- operator skips it.
    halted_at jobs.instant,
    -- It grows with time, so admission can leave out the entries of earlier permits.
    number bigint not null default jobs.floor_number(),
    primary key (job_id, limit_name)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index permit_key on jobs.permit (limit_name, limit_key, number);
create index permit_halted on jobs.permit (limit_name, limit_key) where halted_at is not null;

-- A nudge says that a key may have a free permit or a new job. The transaction that has freed the permit or inserted the job inserts it, even
-- if no job of the key is held. Only admission deletes it, and then examines the key in a later snapshot. The table has no index, so that
-- transactions do not wait for each other.
create table jobs.nudge (
    -- No job that the transaction has brought is before this place in held_order, which begins with `~priority` and `run_at`. By default it is
    -- the first place. `run_at` is null if the transaction has only freed something.
    run_at timestamptz default '-infinity',
    place smallint not null default -32768,
    limit_name text collate "C" not null,
    limit_key text collate "C" not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

alter table jobs.nudge replica identity full;

-- The tokens of a key with a rate. Each admission spends one. A key without a row has all its tokens. Only admission changes these rows, so
-- the lock of jobs.admission protects them, too. Each pass replaces the row of a key by a later one, and reads the latest first, as it does with
-- jobs.admission_floor. An update would leave its earlier versions to be read by each pass until a vacuum.
create table jobs.rate (
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    written_at timestamptz not null default clock_timestamp(),
    -- When it has all its tokens again. After this time the row says nothing, and a sweep deletes it.
    full_at jobs.instant not null,
    -- When admission looks at the key again, while jobs wait for a token.
    next_at jobs.instant,
    -- The floor of the key: there is no job before this place in held_rate.
    place smallint not null default -32768,
    run_at timestamptz not null default '-infinity',
    id bigint not null default 0,
    primary key (limit_name, limit_key, written_at)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

create index rate_next on jobs.rate (next_at) where next_at is not null;
create index rate_full on jobs.rate (full_at) where next_at is null;

-- For keys with tenants: the tenant that was served last. The next pass begins after it. Only admission changes these rows, with its lock. It replaces
-- the row of a key by a later one, as it does with jobs.rate.
create table jobs.fair_turn (
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    written_at timestamptz not null default clock_timestamp(),
    after text collate "C" not null,
    primary key (limit_name, limit_key, written_at)
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- What admission could not do: a job that the database does not make available, for a reason that may pass, or a key at which a pass has failed.
-- Passes leave such a key out until `next_at`, and then handle it apart from the others. Such a job is not due until then, and its key is handled apart.
-- Only admission writes it. The exceptions are jobs that the database refuses to end, because they have expired or their limit is full, and jobs of dead
-- workers that it refuses to move. Their rows have no key, and they are not tried again until `next_at`.
create table jobs.admission_failure (
    limit_name text collate "C" not null,
    limit_key text collate "C" not null,
    -- 0: the key. -1: the sweep, which has no key.
    job_id bigint not null default 0,
    failures integer not null default 1,
    since timestamptz not null default clock_timestamp(),
    next_at timestamptz not null,
    message text not null,
    primary key (limit_name, limit_key, job_id)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- At most one row. The session that has locked it admits. No other session counts permits meanwhile. The first pass inserts it, and not
-- this migration: so a dump and a subscription can fill the table.
create table jobs.admission (
    only_row boolean primary key default true check (only_row),
    -- The key at which the last sweep ended.
    after_name text not null default '',
    after_key text not null default '',
    -- The sequence at which it ended.
    after_sequence text not null default '',
    after_sequence_key text not null default '',
    -- The rate at which it ended.
    after_rate text not null default '',
    after_rate_key text not null default '',
    -- The row of jobs.fair_turn at which it ended.
    after_turn text not null default '',
    after_turn_key text not null default '',
    -- The job whose permit the last sweep looked at last.
    after_permit bigint not null default 0
) with (fillfactor = 50);

-- When jobs with the flag 32 expire: a job is cancelled if its first attempt has not started by then. The enqueue inserts the row. The row is
-- deleted after the job has ended, at the latest by the first sweep after its time. So a job with the flag and without a row has expired, unless
-- it has started.
create table jobs.expiry (
    job_id bigint not null,
    start_by timestamptz not null,
    -- How long after its time the job expires. For an enqueue that changes the time of a unique job.
    after interval not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- An id alone is not unique after an earlier value of the sequence was restored, and then an enqueue must not fail.
create unique index expiry_job on jobs.expiry (job_id, start_by);
alter table jobs.expiry replica identity using index expiry_job;
create index expiry_time on jobs.expiry (start_by);

-- What operators have set: how many jobs of each key of a limit run at once, instead of what the jobs say. It has few rows.
create table jobs.limit_setting (
    name text collate "C" primary key,
    most integer not null check (most between 0 and 10000),
    set_at timestamptz not null default now(),
    set_by text not null,
    reason text
);

-- How many jobs of each key of this limit run at once: what an operator has set, else `most`. The planner replaces the call by its text.
create function jobs.allowed(name text, most integer) returns integer
language sql stable
as $$
    select coalesce((select s.most from jobs.limit_setting s where s.name = allowed.name), allowed.most)
$$;
