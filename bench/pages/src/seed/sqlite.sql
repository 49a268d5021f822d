-- The same rows as in PostgreSQL. Times are microseconds.
pragma synchronous = off;
pragma cache_size = -200000;

insert into jobs_job (id, state, kind, queue, priority, attempt, max_attempts, lease, run_at, enqueued_at, claimed_at, finished_at, expires_at,
                      worker, tags, args)
with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :finished),
     made as (select n, cast(unixepoch() as integer) * 1000000 - 60000000 - (:finished - n) * (604800000000 / :finished) as at,
                     case when n / 30 % 100 < 96 then 'completed' when n / 30 % 100 < 97 then 'cancelled' else 'discarded' end as state from numbers)
select n, state, 'kind_' || (n % 30), 'queue_' || (n % 30 % 12), case when n % 50 = 0 then 5 else 0 end, case when state = 'discarded' then 3 else 1 end, 3, 1,
       at, at, at + 40000, at + 90000, cast(unixepoch() as integer) * 1000000 + 2592000000000, '00000000-0000-7000-8000-00000000000' || (n % 8),
       case when n % 10 = 0 then '["customer_' || (n % 1000) || '","nightly"]' else '[]' end,
       '{"order":' || n || ',"to":"user' || (n % 10000) || '@example.org","total":' || (n % 977) || '}'
from made;

insert into jobs_job (id, kind, queue, priority, attempt, max_attempts, lease, run_at, enqueued_at, tags, args)
with recursive numbers(n) as (select :finished + 1 union all select n + 1 from numbers where n < :finished + :waiting),
     made as (select n, cast(unixepoch() as integer) * 1000000 - (:finished + :waiting - n) * 3000 as at from numbers)
select n, 'kind_' || (n % 30), 'queue_' || (n % 30 % 12), case when n % 50 = 0 then 5 else 0 end, case when n / 30 % 10 = 9 then 2 else 0 end, 25,
       case when n / 30 % 10 = 9 then 2 else 0 end,
       case when n / 30 % 10 < 6 then at else cast(unixepoch() as integer) * 1000000 + n % 700000 * 4000000 + 3600000000 end, at,
       case when n % 10 = 0 then '["customer_' || (n % 1000) || '","nightly"]' else '[]' end,
       '{"order":' || n || ',"to":"user' || (n % 10000) || '@example.org","total":' || (n % 977) || '}'
from made;

insert into jobs_worker (id, host, pid, queues, lease_micros, version, slots, kinds)
with recursive numbers(n) as (select 0 union all select n + 1 from numbers where n < 7),
     queues(q) as (select 0 union all select q + 1 from queues where q < 11),
     kinds(k) as (select 0 union all select k + 1 from kinds where k < 28)
select '00000000-0000-7000-8000-00000000000' || n, 'worker-' || n, 1000 + n, (select json_group_array('queue_' || q) from queues), 86400000000, '1.4.2',
       (select json_group_object('queue_' || q, 8) from queues), (select json_group_array('kind_' || k) from kinds)
from numbers;

insert into jobs_job (id, state, kind, queue, attempt, max_attempts, lease, claimed_at, worker, args)
with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 200)
select :finished + :waiting + n, 'running', 'kind_' || (n % 30), 'queue_' || (n % 30 % 12), 1, 25, 1, cast(unixepoch() as integer) * 1000000,
       '00000000-0000-7000-8000-00000000000' || (n % 8), '{"order":1}'
from numbers;

insert into jobs_job_error (job_id, attempt, started_at, at, worker, kind, message, fingerprint)
select id, attempt, claimed_at, finished_at, worker, 'error',
       'sending order ' || id || ': connection to 10.0.0.' || (id % 250) || ' was refused (' || (id / 30 % 40) || ')', 1000 + id / 30 % 40
from jobs_job where state = 'discarded' order by id;

insert into jobs_job_error (job_id, attempt, started_at, at, worker, kind, message, fingerprint, place)
select j.id, a.value, j.enqueued_at, j.enqueued_at, '00000000-0000-7000-8000-000000000001', 'panic',
       'index out of bounds: the len is ' || (j.id % 10) || ' but the index is 10', 2000, 'src/orders.rs:77'
from jobs_job j, json_each('[1,2]') a where j.state = 'available' and j.lease > 0 order by j.id;

insert into jobs_output (job_id, lease, value)
select id, 1, '{"sent":' || id || '}' from jobs_job where state = 'completed' and id between :finished - 100000 and :finished;

insert into jobs_history (at, minutes, queue, kind, completed, retried, discarded, waits, runs, wait_seconds, run_seconds)
with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 24 * 60),
     kinds(k) as (select 0 union all select k + 1 from kinds where k < 29),
     times(at, minutes) as (
         select (cast(unixepoch() as integer) / 60 - n) * 60000000, 1 from numbers, json_each('[1,2,3,4,5,6,7,8]') where n <= 120
         union all select (cast(unixepoch() as integer) / 900 - n) * 900000000, 15 from numbers where n between 9 and 192
         union all select (cast(unixepoch() as integer) / 3600 - n) * 3600000000, 60 from numbers where n >= 49)
select at, minutes, 'queue_' || (k % 12), 'kind_' || k, 40 * minutes, minutes, 1,
       '[' || substr(replace(hex(zeroblob(30)), '00', ',' || minutes), 2) || ']', '[' || substr(replace(hex(zeroblob(30)), '00', ',' || minutes), 2) || ']',
       3.5 * minutes, 7.5 * minutes
from times, kinds;

insert into jobs_audit (at, actor, action, target, detail)
with recursive numbers(n) as (select 20000 union all select n - 1 from numbers where n > 1)
select cast(unixepoch() as integer) * 1000000 - n * 60000000, 'ada', 'retry', 'job ' || n, '{"jobs":1}' from numbers;

insert into jobs_operation (action, filter, actor, created_at, next_id, last_id, examined, changed, finished_at)
with recursive numbers(n) as (select 500 union all select n - 1 from numbers where n > 1)
select 'retry', '{"kinds":["kind_7"]}', 'ada', cast(unixepoch() as integer) * 1000000 - n * 3600000000, 1000, 1000, 1000, 500,
       cast(unixepoch() as integer) * 1000000 - n * 3600000000 from numbers;

insert into jobs_schedule (name, kind, expression, timezone, catch_up)
with recursive numbers(n) as (select 0 union all select n + 1 from numbers where n < 29)
select 'schedule_' || n, 'kind_' || n, n || ' 3 * * *', 'Europe/Berlin', 'last' from numbers;

insert into jobs_queue (name, paused, paused_at, paused_by, paused_reason)
values ('queue_11', 1, cast(unixepoch() as integer) * 1000000, 'ada', 'the bank is down');

pragma wal_checkpoint(truncate);
