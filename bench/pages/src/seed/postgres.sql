-- Five million ended and one million waiting jobs of 30 kinds in 12 queues, with what workers write besides.
-- The loads need no durability.
set synchronous_commit = off;

-- Of a hundred ended jobs 96 are completed, 1 is cancelled and 3 are discarded. They ended in the last week.
insert into jobs.finished (id, run_at, enqueued_at, claimed_at, finished_at, expires_at, lease, state, priority, attempt, max_attempts,
                           crashes, worker, kind, queue, tags, args)
select n, at, at, at + interval '40 ms', at + interval '90 ms', now() + interval '30 days' - (:finished - n) * interval '1 ms', 1, state,
       case when n % 50 = 0 then 5 else 0 end, case when state = 3 then 3 else 1 end, 3, 0,
       ('00000000-0000-7000-8000-00000000000' || n % 8)::uuid, 'kind_' || n % 30, 'queue_' || n % 30 % 12,
       case when n % 10 = 0 then array['customer_' || n % 1000, 'nightly'] end,
       json_build_object('order', n, 'to', 'user' || n % 10000 || '@example.org', 'total', n % 977)
from (select n, now() - interval '1 minute' - (:finished - n) * (interval '7 days' / :finished) as at,
             (case when n / 30 % 100 < 96 then 1 when n / 30 % 100 < 97 then 2 else 3 end)::smallint as state
      from generate_series(1, :finished::bigint) n) made;

-- Of ten waiting jobs six are due, three are scheduled and one is tried again.
insert into jobs.ready (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, kind, queue, tags, args)
select n, case when n / 30 % 10 < 6 then now() - (:finished + :waiting - n) * interval '3 ms' else now() + n % 700000 * interval '4 s' + interval '1 hour' end,
       now() - (:finished + :waiting - n) * interval '3 ms', case when n / 30 % 10 = 9 then 2 else 0 end,
       case when n % 50 = 0 then 5 else 0 end, case when n / 30 % 10 = 9 then 2 else 0 end, 25, 'kind_' || n % 30, 'queue_' || n % 30 % 12,
       case when n % 10 = 0 then array['customer_' || n % 1000, 'nightly'] end,
       json_build_object('order', n, 'to', 'user' || n % 10000 || '@example.org', 'total', n % 977)
from generate_series(:finished::bigint + 1, :finished::bigint + :waiting) n;

select setval('jobs.job_id', :finished::bigint + :waiting + 1000);

insert into jobs.worker (id, host, pid, queues, lease, version, slots, kinds)
select ('00000000-0000-7000-8000-00000000000' || n)::uuid, 'worker-' || n, 1000 + n, array(select 'queue_' || q from generate_series(0, 11) q),
       interval '1 day', '1.4.2', (select json_object_agg('queue_' || q, 8) from generate_series(0, 11) q),
       array(select 'kind_' || k from generate_series(0, 28) k)
from generate_series(0, 7) n;

insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, args)
select :finished::bigint + :waiting + n, now(), now(), 1, 0, 1, 25, 0, ('00000000-0000-7000-8000-00000000000' || n % 8)::uuid, 'kind_' || n % 30,
       'queue_' || n % 30 % 12, '{"order":1}'
from generate_series(1, 200) n;

-- Failures of 40 texts.
insert into jobs.job_error (job_id, attempt, started_at, at, worker, kind, message, fingerprint, place)
select id, attempt, claimed_at, finished_at, worker, 'error',
       'sending order ' || id || ': connection to 10.0.0.' || id % 250 || ' was refused (' || id / 30 % 40 || ')', 1000 + id / 30 % 40, null
from jobs.finished where state = 3;
insert into jobs.job_error (job_id, attempt, started_at, at, worker, kind, message, fingerprint, place)
select id, a, enqueued_at, enqueued_at, '00000000-0000-7000-8000-000000000001', 'panic',
       'index out of bounds: the len is ' || id % 10 || ' but the index is 10', 2000, 'src/orders.rs:77'
from jobs.ready, generate_series(1, 2) a where lease > 0;

insert into jobs.output (job_id, lease, value)
select id, 1, json_build_object('sent', id) from jobs.finished where state = 1 and id > :finished - 100000;

-- The history as workers leave it: minutes of each of 8 workers in the last two hours, quarters of an hour for two days, then hours.
insert into jobs.history (at, minutes, batch, queue, kind, completed, retried, discarded, waits, runs, wait_seconds, run_seconds)
select at, minutes, null, 'queue_' || k % 12, 'kind_' || k, 40 * minutes, minutes, 1, array_fill(minutes, array[30]), array_fill(minutes, array[30]),
       3.5 * minutes, 7.5 * minutes
from (select date_trunc('minute', now()) - m * interval '1 minute' as at, 1 as minutes from generate_series(1, 120) m, generate_series(1, 8) w
      union all
      select date_bin('15 minutes', now(), 'epoch') - m * interval '15 minutes', 15 from generate_series(9, 192) m
      union all
      select date_trunc('hour', now()) - m * interval '1 hour', 60 from generate_series(49, 24 * 60) m) times,
     generate_series(0, 29) k;

insert into jobs.audit (at, actor, action, target, detail)
select now() - n * interval '1 minute', 'ada', 'retry', 'job ' || n, '{"jobs":1}' from generate_series(20000, 1, -1) n;

insert into jobs.operation (action, filter, actor, created_at, next_id, last_id, examined, changed, finished_at)
select 'retry', '{"kinds":["kind_7"]}', 'ada', now() - n * interval '1 hour', 1000, 1000, 1000, 500, now() - n * interval '1 hour'
from generate_series(500, 1, -1) n;

insert into jobs.schedule (name, kind, expression, timezone, catch_up)
select 'schedule_' || n, 'kind_' || n, n || ' 3 * * *', 'Europe/Berlin', 'last' from generate_series(0, 29) n;

insert into jobs.queue (name, paused, paused_at, paused_by, paused_reason) values ('queue_11', true, now(), 'ada', 'the bank is down');

vacuum (analyze) jobs.finished;
vacuum (analyze) jobs.ready;
vacuum (analyze) jobs.job_error;
vacuum (analyze) jobs.history;
vacuum (analyze) jobs.output;
analyze;
checkpoint;
