-- Held jobs, which wait for a limit, for their turn in a sequence or for a token of a rate; unique keys; and the view of all jobs.

-- Held jobs in the order of admission. A full key does not delay other keys, because each has its own range. Jobs that may not
-- start now are in other indexes, so that admission does not read them repeatedly.
create index jobs_job_held on jobs_job (limit_name, limit_key, priority desc, due_at, id) where flags & 2 and held_back = 0 and flags & 12 = 0;

-- A sequence is admitted in the order of the ids. A job that is not due stops those behind it.
create index jobs_job_held_sequence on jobs_job (limit_name, limit_key, id) where flags & 2 and flags & 4;

-- Jobs with a rate, in the order of admission.
create index jobs_job_held_rate on jobs_job (limit_name, limit_key, priority desc, due_at, id) where flags & 2 and held_back = 0 and flags & 8;

-- Jobs with tenants, in the order of admission of each tenant. They are in jobs_job_held, too, by which their keys are found and counted.
create index jobs_job_held_fair on jobs_job (limit_name, limit_key, rules ->> '$[0].tenant', priority desc, due_at, id) where flags & 2 and held_back = 0 and flags & 256;

-- The jobs with several rules, and those of them that wait at one of their rules: the first ones of their lanes.
create index jobs_job_held_several on jobs_job (id) where flags & 2 and flags & 128;
create index jobs_job_held_from_lane on jobs_job (lane) where flags & 2 and flags & 132 = 128 and limit_name <> '';

-- The jobs that do not wait if their limit is full, before their first attempt.
create index jobs_job_held_on_full on jobs_job (limit_name, limit_key, (flags & 8), priority desc, due_at, id)
    where flags & 2 and flags & 64 and held_back = 0 and lease = 0;
create index jobs_job_held_later on jobs_job (due_at, id) where flags & 2 and held_back = 1;
create index jobs_job_held_paused on jobs_job (queue, kind) where flags & 2 and held_back = 2;

-- One row for each job with a limit that is available or running, and not held. Only admission inserts a row. A job of a sequence keeps
-- its permit until it has ended, and while it is held before its next attempt.
create table jobs_permit (
    job_id integer not null,
    limit_name text not null,
    limit_key text not null,
    -- When the job was discarded, which halts its sequence. The row stays, even when the job is deleted, until the job is retried or an
    -- operator skips it.
    halted_at integer,
    primary key (job_id, limit_name)
) strict, without rowid;

create index jobs_permit_key on jobs_permit (limit_name, limit_key);
create index jobs_permit_halted on jobs_permit (limit_name, limit_key) where halted_at is not null;
create index jobs_job_start_by on jobs_job (start_by) where start_by is not null;

-- A nudge says that a key may have a free permit, or a new job. Admission deletes it and examines the key.
create table jobs_nudge (
    limit_name text not null,
    limit_key text not null
) strict;

-- What operators have set: how many jobs of each key of a limit run at once, instead of what the jobs say. It has few rows.
create table jobs_limit_setting (
    name text primary key,
    most integer not null check (most between 0 and 10000),
    set_at integer not null default (cast(round(unixepoch('subsec') * 1000) as integer) * 1000),
    set_by text not null,
    reason text
) strict, without rowid;

-- The tokens of a key with a rate. Each admission spends one. A key without a row has all its tokens. Only admission changes it.
create table jobs_rate (
    limit_name text not null,
    limit_key text not null,
    -- When it has all its tokens again. After this time the row says nothing, and a sweep deletes it.
    full_at integer not null,
    -- When admission looks at the key again, while jobs wait for a token.
    next_at integer,
    primary key (limit_name, limit_key)
) strict, without rowid;

create index jobs_rate_next on jobs_rate (next_at) where next_at is not null;
create index jobs_rate_full on jobs_rate (full_at) where next_at is null;

-- For keys with tenants: the tenant of which admission took a job last. The one after it is next. Only admission changes it.
create table jobs_fair_turn (
    limit_name text not null,
    limit_key text not null,
    after text not null,
    primary key (limit_name, limit_key)
) strict, without rowid;

-- What admission could not do: a job that the file does not make available, for a reason that may pass, or a key at which a pass has failed
-- (job_id = 0). Passes leave such a key out until next_at. Such a job is not due until then. Only admission
-- changes it. The exceptions are waiting jobs that the file refuses to end, and jobs of dead workers that it refuses to move. They have no key, and are
-- not tried again until next_at.
create table jobs_admission_failure (
    limit_name text not null,
    limit_key text not null,
    job_id integer not null default 0,
    failures integer not null default 1,
    since integer not null,
    next_at integer not null,
    message text not null,
    primary key (limit_name, limit_key, job_id)
) strict, without rowid;

-- Triggers, so that no permit remains, whichever statement ends or deletes the job.
create trigger jobs_job_arrives after insert on jobs_job when new.flags & 2 begin
    update jobs_job set held_back = 1 where id = new.id and due_at > (cast(round(unixepoch('subsec') * 1000) as integer) * 1000);
    insert into jobs_nudge (limit_name, limit_key) values (new.limit_name, new.limit_key);
end;

create trigger jobs_job_leaves after update of state, flags on jobs_job
-- A held job that only waits elsewhere has another `waits_at`.
when old.flags & 1 and (new.flags & 2 or new.state not in ('available', 'running')) and old.waits_at is new.waits_at begin
    delete from jobs_permit where job_id = new.id and not (
        limit_name = new.rules ->> '$[0].name' and new.rules -> '$[0].rule.sequence' is not null
        and (new.state = 'available' or new.state = 'discarded' and new.rules ->> '$[0].rule.sequence.on_discard' = 'halt')
    );
    update jobs_permit set halted_at = (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
    where job_id = new.id and limit_name = new.rules ->> '$[0].name' and halted_at is null and new.state = 'discarded' and new.rules ->> '$[0].rule.sequence.on_discard' = 'halt';
    -- The end of a job with a rate brings no token.
    insert into jobs_nudge (limit_name, limit_key) select new.limit_name, new.limit_key where new.flags & 8 = 0 or new.flags & 2;
    insert into jobs_nudge (limit_name, limit_key)
    select value ->> '$.name', value ->> '$.key' from json_each(case when new.flags & 128 then new.rules end) where value -> '$.rule.rate' is null
    union all select '', new.lane where new.flags & 128;
    -- A held job that ends is not held any more.
    update jobs_job set waits_at = null, flags = flags & ~12 | case when rules -> '$[0].rule.sequence' is null then 0 else 4 end
    where id = new.id and flags & 128 and flags & 2 and state not in ('available', 'running');
    update jobs_job set flags = flags & ~2, run_at = coalesce(due_at, run_at), due_at = null, held_back = 0
    where id = new.id and flags & 2 and state not in ('available', 'running');
end;

create trigger jobs_job_deleted after delete on jobs_job when old.flags & 1 and old.state in ('available', 'running') begin
    delete from jobs_permit where job_id = old.id;
    insert into jobs_nudge (limit_name, limit_key) select old.limit_name, old.limit_key where old.flags & 8 = 0;
    insert into jobs_nudge (limit_name, limit_key)
    select value ->> '$.name', value ->> '$.key' from json_each(case when old.flags & 128 then old.rules end) where value -> '$.rule.rate' is null
    union all select '', old.lane where old.flags & 128;
end;

-- The unique keys of jobs. A row says which job has the key. That job has it for as long as it waits or runs (`started`: for as long as
-- it waits for its first attempt), and at most until `until`. Otherwise the row is without effect, and the next enqueue with the key gives
-- it to its own job.
create table jobs_unique_key (
    name text not null,
    key text not null,
    job_id integer not null,
    started integer not null,
    until integer,
    primary key (name, key)
) strict, without rowid;

create index jobs_unique_key_job on jobs_unique_key (job_id);

create trigger jobs_job_ended after update of state on jobs_job when old.flags & 16 and new.state not in ('available', 'running') begin
    delete from jobs_unique_key where job_id = new.id;
end;

create trigger jobs_job_gone after delete on jobs_job when old.flags & 16 begin
    delete from jobs_unique_key where job_id = old.id;
end;

-- One row per job, for your own queries and joins. For a waiting job, `state` is available (due now), scheduled (due
-- later) or retrying (due later, after a failed attempt).
create view jobs_job_view as
select id, kind, queue,
       case when state <> 'available' then state
            when flags & 2 and due_at <= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) then 'held'
            when run_at <= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) then 'available'
            when attempt > 0 then 'retrying' else 'scheduled' end as state,
       priority, attempt, max_attempts, crashes, coalesce(due_at, run_at) as run_at, enqueued_at, claimed_at, finished_at, worker, lease, tags, args,
       (select e.message from jobs_job_error e where e.job_id = jobs_job.id order by e.id desc limit 1) as last_error,
       flags,
       (select o.value from jobs_output o where o.job_id = jobs_job.id and o.lease = jobs_job.lease and jobs_job.state = 'completed') as output,
       (select o.note from jobs_output o where o.job_id = jobs_job.id and o.lease = jobs_job.lease and jobs_job.state = 'completed') as output_note,
       (select o.progress_done from jobs_output o where o.job_id = jobs_job.id) as progress_done,
       (select o.progress_total from jobs_output o where o.job_id = jobs_job.id) as progress_total,
       (select o.progress_message from jobs_output o where o.job_id = jobs_job.id) as progress_message,
       (select o.progress_at from jobs_output o where o.job_id = jobs_job.id) as progress_at,
       traceparent,
       rules
from jobs_job;

insert into jobs_schema_migration (version, name, oldest_program) values (1, 'jobs', 1);
