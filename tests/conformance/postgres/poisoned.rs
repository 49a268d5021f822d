//! Rows that the database refuses to move on: planted by hand, or left by a sequence that was set back. They are set apart, and
//! all others go on.

use std::time::Duration;

use jobs_core::storage::{Operated, RescuePolicy};
use jobs_core::{JobState, Transition};

use super::Postgres;
use crate::bench::*;
use crate::client::Client;
use crate::fixture::{Fixture, run};

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
        // As after a failover to a server whose sequence lags behind.
        client.execute(&format!("select setval('jobs.job_id', {running}, false)")).await.unwrap();
        let jobs = enqueue_all(&f, vec![job(); 5]).await;
        assert_eq!(jobs[0], running);
        assert_eq!(ids(&claim(db, worker, 10).await), jobs[1..]);
        assert_eq!(apart(&mut client, "running job").await, 1);
        assert_eq!(state(db, running).await, JobState::Running);
        // Two of one id that both wait: one of them is done.
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
        let first = claimed(&f, worker, job()).await.lease.job;
        let ended = claim(db, worker, 1).await;
        assert_eq!(ended.len(), 0);
        let plant = "insert into jobs.finished (id, run_at, enqueued_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue)
            select id, now(), now(), 1, 1, 0, 1, 1, 0, 'a', 'default' from jobs.running";
        client.execute(plant).await.unwrap();
        for transition in [discard(), DONE] {
            let lease = db.storage.leases(worker, None).await.unwrap()[0];
            let lease = jobs_core::Lease { job: lease.0, number: lease.1, worker };
            assert!(finish(db, lease, transition).await);
            client.execute("update jobs.finished set state = 3").await.unwrap();
            assert_eq!(db.operator.retry(first).await.unwrap(), Operated::Done);
            assert_eq!(ids(&claim(db, worker, 1).await), [first]);
            client.execute(plant).await.unwrap();
        }
        assert_eq!(apart(&mut client, "later job").await, 2);
        // A rescue that has to discard it.
        client.execute("update jobs.running set max_attempts = attempt").await.unwrap();
        db.storage.deregister(worker).await.unwrap();
        let rescued = db.storage.rescue(RescuePolicy { orphans: true, ..POLICY }).await.unwrap();
        assert_eq!(rescued.discarded, [first]);
        assert_eq!(apart(&mut client, "later job").await, 3);
    });
}

#[test]
fn numbers_at_their_ends_stop_nobody() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let worker = worker(db).await;
        let last = claimed(&f, worker, job()).await.lease;
        assert!(finish(db, last, discard()).await);
        client.execute("update jobs.finished set attempt = 32767, max_attempts = 32767").await.unwrap();
        assert_eq!(db.operator.retry(last.job).await.unwrap(), Operated::Done);
        let retried = claim(db, worker, 1).await.remove(0);
        assert_eq!((retried.lease.job, retried.attempt), (last.job, 32767));
        assert!(finish(db, retried.lease, Transition::Snooze(Duration::ZERO)).await);
        client
            .execute(
                "insert into jobs.ready (kind, args, priority, attempt) values ('a', '1', 9, 32767);
                 insert into jobs.ready (kind, args, priority, lease) values ('a', '1', 9, 2147483647)",
            )
            .await
            .unwrap();
        // A priority that is new to the worker.
        db.storage.rescan(&wants(worker, &[("default", 10)])).await.unwrap();
        assert_eq!(ids(&claim(db, worker, 10).await), [last.job]);
        assert_eq!(apart(&mut client, "counted up").await, 2);
        client.execute("update jobs.running set attempt = 0, crashes = 32767").await.unwrap();
        db.storage.deregister(worker).await.unwrap();
        assert_eq!(db.storage.rescue(POLICY).await.unwrap().discarded, [last.job]);
    });
}

#[test]
fn what_would_stop_everybody_is_refused_at_once() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for refused in [
            "insert into jobs.ready (kind, args, run_at) values ('a', '1', 'infinity')",
            "insert into jobs.ready (kind, args, enqueued_at) values ('a', '1', '-infinity')",
            "insert into jobs.worker (id, host, pid, queues, lease) values (gen_random_uuid(), '', 1, '{}', '100000 years')",
        ] {
            client.execute(refused).await.unwrap_err();
        }
        // A program that wants as much gets what there is.
        worker_for(f.database(), Duration::MAX).await;
        f.database().storage.rescue(POLICY).await.unwrap();
    });
}
