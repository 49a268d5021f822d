//! SQLite has one writer at a time. That must not affect workers.

use std::any::TypeId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use diesel::{RunQueryDsl, SqliteConnection};
use diesel_jobs_core::storage::{Body, Rescued, Transacted, Transaction};
use diesel_jobs_core::{ClaimedJob, JobError, Transition};
use diesel_jobs_storage::Database;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Sqlite;
use crate::bench::*;
use crate::client::Client;
use crate::fixture::{Fixture, Port as _, run};

fn transaction(
    job: &ClaimedJob,
    body: impl Fn(&mut SqliteConnection) -> Result<Transition, JobError> + Send + Sync + 'static,
) -> Transaction {
    Transaction {
        connection: TypeId::of::<SqliteConnection>(),
        jobs: [context(job)].into(),
        body: Body::Blocking(Arc::new(move |conn| body(conn.downcast_mut().unwrap()).map(|one| vec![one]))),
        abort: CancellationToken::new(),
    }
}

#[test]
fn a_long_transaction_does_not_make_workers_count_as_dead() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let alive = worker(f.database()).await;
        let job = claimed(&f, alive, job()).await;
        let beats = Arc::new(AtomicUsize::new(0));
        let pulse = tokio::spawn({
            let (db, beats) = (f.again().await, beats.clone());
            async move {
                let mut heartbeat = db.storage.open_heartbeat(alive).await.unwrap();
                loop {
                    assert!(heartbeat.beat(false, HOUR).await.unwrap().is_some(), "it was declared dead");
                    beats.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
        let rescuer = tokio::spawn({
            // Its stopwatch runs.
            let db = Database::open(&f.url(), 4).await.unwrap();
            async move {
                loop {
                    assert_eq!(db.storage.rescue(POLICY).await.unwrap(), Rescued::default());
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
        let mut application = f.connect();
        for _ in 0..2 {
            application.execute("begin immediate; insert into effect (name) values ('x')").await.unwrap();
            // The lease ends while the heartbeat waits for the transaction.
            application.execute(&Sqlite::passed(2 * HOUR)).await.unwrap();
            // So long both wait. On a slow machine it is longer, and nobody may count as dead then, either.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let before = beats.load(Ordering::SeqCst);
            application.execute("commit").await.unwrap();
            while beats.load(Ordering::SeqCst) < before + 3 && !pulse.is_finished() && !rescuer.is_finished() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        assert!(!pulse.is_finished() && !rescuer.is_finished());
        pulse.abort();
        rescuer.abort();
        assert!(finish(f.database(), &job, DONE).await);
    });
}

/// A worker whose runtime is blocked asks for them, to release those that have not begun.
#[test]
fn the_leases_are_read_while_a_handler_writes() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let worker = worker(f.database()).await;
        let job = claimed(&f, worker, job()).await;
        let (begun, (end, ends)) = (Arc::new(Notify::new()), mpsc::channel::<()>());
        let (says, ends) = (begun.clone(), Mutex::new(ends));
        let writes = transaction(&job, move |conn| {
            diesel::sql_query("insert into effect (name) values ('x')").execute(conn).unwrap();
            says.notify_one();
            let _ = ends.lock().unwrap().recv();
            Ok(DONE)
        });
        let handler = tokio::spawn({
            let storage = f.database().storage.clone();
            async move { storage.transact(writes).await }
        });
        begun.notified().await;
        let mut heartbeat = f.database().storage.open_heartbeat(worker).await.unwrap();
        assert_eq!(heartbeat.leases().await.unwrap(), [(job.lease.job, job.lease.number)]);
        end.send(()).unwrap();
        assert!(matches!(handler.await.unwrap(), Transacted::Committed(_)));
        assert!(heartbeat.leases().await.unwrap().is_empty());
    });
}

#[test]
fn a_panicking_handler_leaves_nothing_and_the_writer_goes_on() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let db = f.database();
        let worker = worker(db).await;
        let job = claimed(&f, worker, job()).await;
        let ended = db
            .storage
            .transact(transaction(&job, |conn| {
                diesel::sql_query("insert into effect (name) values ('panic')").execute(conn).unwrap();
                panic!("in the middle of a transaction");
            }))
            .await;
        assert!(matches!(&ended, Transacted::RolledBack(error) if error.to_string().contains("panicked")), "{ended:?}");
        assert_eq!(effects(&f, "panic").await, 0);
        assert!(finish(db, &job, DONE).await);
    });
}

#[test]
fn transactional_handlers_queue_for_the_writer_and_all_of_them_commit() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let worker = worker(f.database()).await;
        enqueue_all(&f, vec![job(); 40]).await;
        let running: Vec<_> = claim(f.database(), worker, 40)
            .await
            .into_iter()
            .map(|job| {
                let db = f.database().clone();
                tokio::spawn(async move {
                    let body = |conn: &mut SqliteConnection| {
                        diesel::sql_query("insert into effect (name) values ('one')").execute(conn).unwrap();
                        std::thread::sleep(Duration::from_millis(10));
                        Ok(DONE)
                    };
                    db.storage.transact(transaction(&job, body)).await
                })
            })
            .collect();
        for one in running {
            assert!(matches!(one.await.unwrap(), Transacted::Committed(_)));
        }
        assert_eq!(effects(&f, "one").await, 40);
    });
}
