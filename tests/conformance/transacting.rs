//! A handler inside the transaction that finishes its job, on every connection type the storage provides.

use std::any::TypeId;
use std::slice;
use std::sync::Mutex;
use std::time::Duration;

use diesel_jobs_core::storage::{Operated, Transacted, Transaction};
use diesel_jobs_core::{ClaimedJob, JobState, Transition};
use tokio_util::sync::CancellationToken;

use crate::bench::*;
use crate::fixture::{Act, Fixture, PATIENCE, Provided, hold};

pub(crate) fn transaction(provided: &Provided, job: &ClaimedJob, act: Act) -> Transaction {
    of_batch(provided, slice::from_ref(job), act)
}

pub(crate) fn of_batch((_, connection, body): &Provided, jobs: &[ClaimedJob], act: Act) -> Transaction {
    let jobs = jobs.iter().map(context).collect();
    Transaction { connection: *connection, jobs, body: body(act), abort: CancellationToken::new() }
}

/// Whether it is the commit of one job, with a transition of this form.
macro_rules! committed {
    ($ended:expr, $transition:pat) => {
        matches!(&$ended, Transacted::Committed(transitions) if matches!(transitions[..], [$transition]))
    };
}

pub(crate) use committed;

pub(crate) async fn effects_and_completion_commit_together<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        assert!(db.storage.provides(provided.1));
        let job = claimed(&f, worker, job()).await;
        let ended = db.storage.transact(transaction(&provided, &job, Act::new(provided.0, Ok(DONE)))).await;
        assert!(committed!(ended, Transition::Complete(_)), "{}: {ended:?}", provided.0);
        assert_eq!((effects(&f, provided.0).await, state(db, job.lease.job).await), (1, JobState::Completed));
    }
}

pub(crate) async fn a_failed_handler_leaves_nothing_and_keeps_its_lease<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let job = claimed(&f, worker, job()).await;
        let ended = db.storage.transact(transaction(&provided, &job, Act::new(provided.0, Err("no money")))).await;
        assert!(matches!(&ended, Transacted::RolledBack(error) if error.to_string() == "no money"), "{ended:?}");
        assert_eq!((effects(&f, provided.0).await, state(db, job.lease.job).await), (0, JobState::Running));
        assert!(finish(db, &job, retry_in(HOUR)).await);
    }
}

pub(crate) async fn a_lost_lease_rolls_everything_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let old = claimed(&f, worker, job()).await;
        assert!(finish(db, &old, Transition::Release).await);
        let new = claim(db, worker, 1).await.remove(0);
        let ended = db.storage.transact(transaction(&provided, &old, Act::new(provided.0, Ok(DONE)))).await;
        assert!(matches!(ended, Transacted::LeaseLost), "{ended:?}");
        assert_eq!((effects(&f, provided.0).await, state(db, old.lease.job).await), (0, JobState::Running));
        assert!(finish(db, &new, DONE).await);
    }
}

/// If the storage has one writer at a time, the lease cannot be taken away meanwhile: the cancel waits for the end of
/// the transaction. On every storage either the effects or the cancel are committed, never both.
pub(crate) async fn a_lease_lost_while_the_handler_runs_rolls_everything_back<F: Fixture>(f: F) {
    let worker = worker(f.database()).await;
    for provided in F::provided() {
        let job = claimed(&f, worker, job()).await;
        let (hold, held) = hold();
        let act = Act { hold: Mutex::new(Some(hold)), ..Act::new(provided.0, Ok(DONE)) };
        let running = tokio::spawn({
            let (db, transaction) = (f.database().clone(), transaction(&provided, &job, act));
            async move { db.storage.transact(transaction).await }
        });
        held.started.await.unwrap();
        let operator = tokio::spawn({
            let db = f.again().await;
            async move { db.operator.cancel(job.lease.job).await.unwrap() }
        });
        // The cancel probably comes first then. Both orders are right.
        tokio::time::sleep(Duration::from_millis(200)).await;
        held.go_on.send(()).unwrap();
        let (ended, operated) = (running.await.unwrap(), operator.await.unwrap());
        let effects = effects(&f, provided.0).await;
        let state = state(f.database(), job.lease.job).await;
        match operated {
            Operated::Done => {
                assert!(matches!(ended, Transacted::LeaseLost), "{ended:?}");
                assert_eq!((effects, state), (0, JobState::Cancelled), "{}", provided.0);
            }
            _ => {
                assert!(matches!(ended, Transacted::Committed(_)), "{ended:?}");
                assert_eq!((effects, state), (1, JobState::Completed), "{}", provided.0);
            }
        }
    }
}

pub(crate) async fn an_aborted_handler_leaves_nothing<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let job = claimed(&f, worker, job()).await;
        let (hold, held) = hold();
        let act = Act { hold: Mutex::new(Some(hold)), ..Act::new(provided.0, Ok(DONE)) };
        let transaction = transaction(&provided, &job, act);
        let abort = transaction.abort.clone();
        let running = tokio::spawn({
            let db = db.clone();
            async move { db.storage.transact(transaction).await }
        });
        held.started.await.unwrap();
        abort.cancel();
        let ended = tokio::time::timeout(PATIENCE, running).await;
        let ended = ended.expect("an abort is settled at once").unwrap();
        assert!(matches!(ended, Transacted::Aborted), "{ended:?}");
        // A blocking handler continues to its end, but nothing of it is committed. The row of its job may be locked for
        // a moment.
        let _ = held.go_on.send(());
        let retried = async {
            while !finish(db, &job, retry_in(HOUR)).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, retried).await.expect(provided.0);
        assert_eq!((effects(&f, provided.0).await, state(db, job.lease.job).await), (0, JobState::Retrying));
    }
}

pub(crate) async fn a_snooze_commits_its_effects<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let job = claimed(&f, worker, job()).await;
        let act = Act::new(provided.0, Ok(Transition::Snooze(HOUR)));
        let ended = db.storage.transact(transaction(&provided, &job, act)).await;
        assert!(committed!(ended, Transition::Snooze(_)), "{ended:?}");
        let record = record(db, job.lease.job).await;
        assert_eq!((effects(&f, provided.0).await, record.state, record.attempt), (1, JobState::Scheduled, 0));
    }
}

pub(crate) async fn connections_the_storage_does_not_have_are_not_provided<F: Fixture>(f: F) {
    assert!(!f.database().storage.provides(TypeId::of::<String>()));
    assert!(!F::provided().is_empty());
}
