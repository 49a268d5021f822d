//! Rows that the database refuses to move, because they were inserted by hand or because a sequence was set back. They
//! are moved to `jobs.dead_letter`, and all other jobs continue.

use std::time::Duration;

use diesel_jobs_core::storage::{Claim, Operated, RescuePolicy, Transacted, WaitEnd};
use diesel_jobs_core::{Finish, JobState, Limit, OnFull, Transition};

use super::Postgres;
use crate::bench::*;
use crate::client::Client;
use crate::fixture::{Act, Fixture, Port as _, run};
use crate::limiting::admit;
use crate::on_full::refused;
use crate::rescuing::{held_by_one, last_attempt, workers};
use crate::transacting::transaction;

/// Inserts history with the ids of the running jobs.
const HISTORY: &str = "insert into jobs.finished (id, run_at, enqueued_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue)
    select id, now(), now(), 1, 1, 0, 1, 1, 0, 'a', 'default' from jobs.running";

async fn apart(client: &mut Box<dyn Client>, reason: &str) -> i64 {
    client.number(&format!("select count(*) as number from jobs.dead_letter where reason like '%{reason}%'")).await
}

#[test]
fn a_repeated_id_stops_no_claim() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let mut client = f.client().await;
        let running = claimed(&f, worker, job()).await.lease.job;
        // As after a failover to a server whose sequence is behind.
        client.execute(&format!("select setval('jobs.job_id', {running}, false)")).await.unwrap();
        let jobs = enqueue_all(&f, vec![job(); 5]).await;
        assert_eq!(jobs[0], running);
        assert_eq!(ids(&claim(db, worker, 10).await), jobs[1..]);
        assert_eq!(apart(&mut client, "running job").await, 1);
        assert_eq!(state(db, running).await, JobState::Running);
        // Two waiting jobs have the same id. One of them runs.
        client
            .execute("insert into jobs.ready (id, kind, args) values (777, 'a', '1'), (777, 'a', '2')")
            .await
            .unwrap();
        assert_eq!(claim(db, worker, 10).await.len(), 1);
        assert_eq!(apart(&mut client, "another waiting job").await, 1);
    });
}

#[test]
fn a_repeated_id_stops_no_finish_and_no_rescue() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let worker = worker(db).await;
        let mut running = claimed(&f, worker, job()).await;
        let first = running.lease.job;
        let ended = claim(db, worker, 1).await;
        assert_eq!(ended.len(), 0);
        client.execute(HISTORY).await.unwrap();
        for transition in [discard(), DONE] {
            assert!(finish(db, &running, transition).await);
            client.execute("update jobs.finished set state = 3").await.unwrap();
            assert_eq!(db.operator.retry(first).await.unwrap(), Operated::Done);
            running = claim(db, worker, 1).await.remove(0);
            assert_eq!(running.lease.job, first);
            client.execute(HISTORY).await.unwrap();
        }
        assert_eq!(apart(&mut client, "later job").await, 2);
        // A rescue must discard the job.
        client.execute("update jobs.running set max_attempts = attempt").await.unwrap();
        db.storage.deregister(worker).await.unwrap();
        let rescued = db.storage.rescue(RescuePolicy { orphans: true, ..POLICY }).await.unwrap();
        assert_eq!(rescued.discarded, [first]);
        assert_eq!(apart(&mut client, "later job").await, 3);
    });
}

#[test]
fn history_that_cannot_be_set_apart_stops_no_other_rescue() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let (dead, ids) = held_by_one(&f, vec![job(), last_attempt(), last_attempt()]).await;
        client.execute(HISTORY).await.unwrap();
        let keep = format!(
            "create function keep() returns trigger language plpgsql as $$ begin raise exception 'it is needed'; end $$;
             create trigger keep before delete on jobs.finished for each row when (old.id = {}) execute function keep()",
            ids[1]
        );
        client.execute(&keep).await.unwrap();
        f.pass(4 * HOUR).await;
        let rescued = db.storage.rescue(POLICY).await.unwrap();
        assert_eq!((&rescued.returned[..], &rescued.discarded[..]), (&ids[..1], &ids[2..]));
        assert_eq!(rescued.refused.len(), 1, "{rescued:?}");
        assert!(rescued.refused[0].contains("finished_pkey"), "{rescued:?}");
        assert_eq!(apart(&mut client, "later job").await, 1);
        assert_eq!(workers(db).await, [dead]);
        client.execute("drop trigger keep on jobs.finished").await.unwrap();
        f.pass(MINUTE).await;
        assert_eq!(db.storage.rescue(POLICY).await.unwrap().discarded, ids[1..2]);
        assert_eq!((apart(&mut client, "later job").await, workers(db).await), (2, Vec::new()));
    });
}

/// A rescue fails at its commit, and a try that is rolled back has none.
#[test]
fn a_lost_job_that_is_refused_at_the_commit_stops_no_other() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let deferred =
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
             create constraint trigger refuse after insert on jobs.finished deferrable initially deferred for each row
             when (new.kind = 'refused') execute function refuse()";
        f.client().await.execute(deferred).await.unwrap();
        let mut jobs = vec![last_attempt(); 30];
        for place in [0, 13, 14, 29] {
            jobs[place] = refused(last_attempt());
        }
        let (dead, ids) = held_by_one(&f, jobs).await;
        f.pass(4 * HOUR).await;
        let rescued = db.storage.rescue(POLICY).await.unwrap();
        assert_eq!((rescued.discarded.len(), rescued.refused.len()), (26, 4), "{rescued:?}");
        for place in [0, 13, 14, 29] {
            assert_eq!(state(db, ids[place]).await, JobState::Running);
        }
        assert_eq!(workers(db).await, [dead]);
        f.client().await.execute("drop trigger refuse on jobs.finished").await.unwrap();
        f.pass(MINUTE).await;
        assert_eq!(db.storage.rescue(POLICY).await.unwrap().discarded.len(), 4);
        assert_eq!(workers(db).await, []);
    });
}

/// Inserts history with the ids of the waiting jobs.
const HISTORY_OF_WAITING: &str = "insert into jobs.finished (id, run_at, enqueued_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue)
    select id, now(), now(), 1, 1, 0, 1, 1, 0, 'a', 'default' from (select id from jobs.ready union all select id from jobs.held) waiting";

#[test]
fn a_repeated_id_stops_no_end_of_a_waiting_job() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let mut expires = job();
        expires.expires = Some(MINUTE);
        let held = expires.clone().rule(Limit::new("stripe", 1)).unwrap();
        let full = |rule: OnFull| job().rule(Limit::new("full", 1).key(rule.as_str()).on_full(rule)).unwrap();
        let expired = enqueue_all(&f, vec![expires, held.clone(), held]).await;
        let discarded = enqueue_all(&f, vec![full(OnFull::Discard); 2]).await;
        let cancelled = enqueue_all(&f, vec![full(OnFull::CancelOldest); 2]).await;
        assert_eq!(admit(db).await, 3);
        client.execute(HISTORY_OF_WAITING).await.unwrap();
        let ends = db.storage.end_waiting(WaitEnd::LimitFull, POLICY.retention).await.unwrap();
        assert_eq!((ends.ended.len(), &ends.refused[..]), (2, &[][..]));
        assert_eq!(
            (state(db, discarded[1]).await, state(db, cancelled[0]).await),
            (JobState::Discarded, JobState::Cancelled)
        );
        assert_eq!(apart(&mut client, "later job").await, 2);
        client.execute(&Postgres::passed(2 * MINUTE)).await.unwrap();
        assert_eq!(db.storage.expire(HOUR).await.unwrap().len(), 3);
        for id in expired {
            assert_eq!(state(db, id).await, JobState::Cancelled);
        }
        assert_eq!(apart(&mut client, "later job").await, 5);
    });
}

#[test]
fn history_that_cannot_be_set_apart_stops_no_other_end() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let expires = with(|job| job.expires = Some(MINUTE));
        let ids = enqueue_all(&f, vec![expires.clone(), expires]).await;
        let mut client = f.client().await;
        client.execute(HISTORY_OF_WAITING).await.unwrap();
        let keep = format!(
            "create function keep() returns trigger language plpgsql as $$ begin raise exception 'it is needed'; end $$;
             create trigger keep before delete on jobs.finished for each row when (old.id = {}) execute function keep()",
            ids[0]
        );
        client.execute(&keep).await.unwrap();
        client.execute(&Postgres::passed(2 * MINUTE)).await.unwrap();
        let ends = db.storage.end_waiting(WaitEnd::Expired, POLICY.retention).await.unwrap();
        assert_eq!((ends.ended.len(), ends.refused.len()), (1, 1), "{ends:?}");
        assert!(ends.refused[0].contains("finished_pkey"), "{ends:?}");
        assert_eq!(client.number("select count(*) as number from jobs.ready").await, 1);
        assert_eq!(apart(&mut client, "later job").await, 1);
    });
}

#[test]
fn a_repeated_id_costs_a_transaction_no_attempt() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let worker = worker(db).await;
        for (count, (name, connection, body)) in Postgres::provided().into_iter().enumerate() {
            let job = claimed(&f, worker, job()).await;
            client.execute(HISTORY).await.unwrap();
            let transact =
                || db.storage.transact(transaction(&(name, connection, body), &job, Act::new(name, Ok(DONE))));
            let first = transact().await;
            let Transacted::Conflict { what, .. } = &first else { panic!("{name}: {first:?}") };
            assert!(what.contains("history"), "{what}");
            assert_eq!((effects(&f, name).await, state(db, job.lease.job).await), (0, JobState::Running));
            let second = transact().await;
            assert!(matches!(second, Transacted::Committed(_)), "{name}: {second:?}");
            assert_eq!((effects(&f, name).await, state(db, job.lease.job).await), (1, JobState::Completed));
            assert_eq!(apart(&mut client, "later job").await, i64::try_from(count).unwrap() + 1);
        }
    });
}

/// `complete_in` runs on a connection of the handler, and the handler gets its error. That consumes the attempt, and
/// the next attempt succeeds.
#[test]
fn a_repeated_id_costs_complete_in_one_attempt() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let worker = worker(db).await;
        for (count, (name, mut connection)) in f.clients().await.into_iter().enumerate() {
            let first = claimed(&f, worker, job()).await;
            client.execute(HISTORY).await.unwrap();
            connection.begin().await;
            let refused = connection.complete_in(&context(&first)).await.unwrap_err();
            connection.rollback().await;
            let failure = failure(&refused.to_string());
            assert!(finish(db, &first, Transition::Retry { delay: Duration::ZERO, failure }).await, "{name}");
            assert_eq!(apart(&mut client, "later job").await, i64::try_from(count).unwrap() + 1);
            let second = claim(db, worker, 1).await.remove(0);
            connection.begin().await;
            connection.complete_in(&context(&second)).await.unwrap();
            connection.commit().await;
            assert_eq!(state(db, first.lease.job).await, JobState::Completed);
        }
    });
}

/// One bad row among the rows of dead workers, or among released ones, must not block the others.
#[test]
fn running_rows_that_cannot_go_back_stop_no_rescue_and_no_finish() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let mortal = mortal(db).await;
        let good = claimed(&f, mortal, job()).await.lease.job;
        let bad = [
            ("run_at", "'infinity'", "dates"),
            ("enqueued_at", "'-infinity'", "dates"),
            ("max_attempts", "0", "numbers"),
            ("attempt", "-9", "numbers"),
            ("tags", "array[array['a']]", "tags"),
            ("tags", "array['a', null]", "tags"),
            ("queue", "repeat('q', 9000)", "queue"),
            ("args", "json_build_array(repeat('x', 300000))", "arguments"),
            ("lease", "0", "arguments"),
        ];
        for (place, (column, value, _)) in (1_000_000..).zip(bad) {
            plant(&mut client, place, column, value).await;
        }
        let rescued = db.storage.rescue(RescuePolicy { orphans: true, ..POLICY }).await.unwrap();
        assert_eq!(rescued.returned, [good]);
        for (_, _, reason) in bad {
            assert!(apart(&mut client, reason).await > 0, "{reason}");
        }
        assert_eq!(client.number("select count(*) as number from jobs.dead_letter").await, 9);

        // A job that was claimed normally, and whose row was changed by another session.
        let alive = worker(db).await;
        let spoiled = claim(db, alive, 1).await.remove(0);
        assert_eq!(spoiled.lease.job, good);
        client.execute("update jobs.running set run_at = 'infinity'").await.unwrap();
        let other = claimed(&f, alive, job()).await;
        let release = [&spoiled, &other].map(|job| Finish::new(job, Transition::Release));
        assert_eq!(db.storage.finish_all(&release).await.unwrap(), [other.lease.job]);
        assert_eq!(apart(&mut client, "dates").await, 3);
    });
}

/// Inserts a running row that no claim would make, with a worker that is not registered.
async fn plant(client: &mut Box<dyn Client>, id: i64, column: &str, value: &str) {
    let sql = format!(
        "insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, args)
         values ({id}, now(), now(), 1, 0, 1, 25, 0, gen_random_uuid(), 'a', 'default', null);
         update jobs.running set {column} = {value} where id = {id}"
    );
    client.execute(&sql).await.unwrap();
}

#[test]
fn only_rows_that_the_refused_claim_read_are_set_apart() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let worker = worker(db).await;
        client
            .execute(
                "insert into jobs.ready (kind, args, attempt) values ('a', '1', 32767);
                 insert into jobs.ready (kind, args, attempt, queue) values ('a', '1', 32767, 'other');
                 insert into jobs.ready (kind, args, attempt, run_at) values ('a', '1', 32767, now() + interval '1 hour')",
            )
            .await
            .unwrap();
        let good = enqueue(&f, job()).await;
        assert_eq!(ids(&claim(db, worker, 10).await), [good]);
        assert_eq!(apart(&mut client, "largest possible").await, 1);
        // A quarantined job.
        client
            .execute("insert into jobs.ready (kind, args, attempt, crashes) values ('a', '1', 32767, 2)")
            .await
            .unwrap();
        assert!(
            db.storage
                .claim(&Claim { quarantined_at: 1, only_quarantined: true, ..wants(worker, &[("default", 1)]) })
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(apart(&mut client, "largest possible").await, 2);
    });
}

#[test]
fn numbers_at_their_maximum_stop_no_worker() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let worker = worker(db).await;
        let last = claimed(&f, worker, job()).await;
        assert!(finish(db, &last, discard()).await);
        client.execute("update jobs.finished set attempt = 32767, max_attempts = 32767").await.unwrap();
        assert_eq!(db.operator.retry(last.lease.job).await.unwrap(), Operated::Done);
        let retried = claim(db, worker, 1).await.remove(0);
        assert_eq!((retried.lease.job, retried.attempt), (last.lease.job, 32767));
        assert!(finish(db, &retried, Transition::Snooze(Duration::ZERO)).await);
        client
            .execute(
                "insert into jobs.ready (kind, args, priority, attempt) values ('a', '1', 9, 32767);
                 insert into jobs.ready (kind, args, priority, lease) values ('a', '1', 9, 2147483647)",
            )
            .await
            .unwrap();
        assert_eq!(ids(&claim(db, worker, 10).await), [last.lease.job]);
        assert_eq!(apart(&mut client, "largest possible").await, 2);
        client.execute("update jobs.running set attempt = 0, crashes = 32767").await.unwrap();
        db.storage.deregister(worker).await.unwrap();
        assert_eq!(db.storage.rescue(POLICY).await.unwrap().discarded, [last.lease.job]);
    });
}

#[test]
fn rows_that_would_stop_all_workers_are_refused_at_the_insert() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for refused in [
            "insert into jobs.ready (kind, args, run_at) values ('a', '1', 'infinity')",
            "insert into jobs.ready (kind, args, enqueued_at) values ('a', '1', '-infinity')",
            "insert into jobs.ready (kind, args, attempt) values ('a', '1', -1)",
            "insert into jobs.ready (kind, args, lease) values ('a', '1', -1)",
            "insert into jobs.ready (kind, args, crashes) values ('a', '1', -1)",
            "insert into jobs.worker (id, host, pid, queues, lease) values (gen_random_uuid(), '', 1, '{}', '100000 years')",
            "insert into jobs.worker (id, host, pid, queues, lease, heartbeat_at) values (gen_random_uuid(), '', 1, '{}', '1 s', 'infinity')",
            "insert into jobs.schedule (name, kind, expression, timezone, catch_up, last_tick) values ('a', 'a', '', '', 'all', '-infinity')",
        ] {
            client.execute(refused).await.unwrap_err();
        }
        // A program that requests such a lease gets the maximum.
        worker_for(f.database(), Duration::MAX).await;
        f.database().storage.rescue(POLICY).await.unwrap();
    });
}
