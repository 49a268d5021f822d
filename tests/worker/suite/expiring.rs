//! Jobs that expire, with whole workers: they are cancelled, counted, and never run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel_jobs::rules::Limit;
use diesel_jobs::{Job as _, JobState, State, job};
use support::{Db, Running, registry};
use tokio::sync::Notify;

#[derive(Clone, Default)]
struct Ran(Arc<AtomicUsize>);

#[derive(Clone, Default)]
struct Gate(Arc<Notify>);

/// Occupies the only slot.
#[job]
async fn block(State(gate): State<Gate>) {
    gate.0.notified().await;
}

#[job(expires = "50ms")]
async fn expire_soon(State(ran): State<Ran>) {
    ran.0.fetch_add(1, Ordering::SeqCst);
}

#[job(expires = "1h")]
async fn expire_late(State(ran): State<Ran>) {
    ran.0.fetch_add(1, Ordering::SeqCst);
}

async fn an_expired_job_never_runs(db: Db) {
    let (ran, gate) = (Ran::default(), Gate::default());
    let blocking = db.enqueue(Block).await;
    let worker = db.worker(registry![Block, ExpireSoon, ExpireLate]).slots(1);
    let worker = Running::start(worker.state(ran.clone()).state(gate.clone()));
    db.await_state(blocking, JobState::Running).await;
    let soon = db.enqueue(ExpireSoon).await;
    let held = db.enqueue(ExpireSoon.concurrency(Limit::new("soon", 1))).await;
    let late = db.enqueue(ExpireLate).await;
    let own = db.enqueue(ExpireLate.expires(Duration::from_millis(50))).await;
    for id in [soon, held, own] {
        db.await_state(id, JobState::Cancelled).await;
    }
    gate.0.notify_one();
    db.await_state(late, JobState::Completed).await;
    assert_eq!(ran.0.load(Ordering::SeqCst), 1);
    worker.stop().await;
    // `Operator::rates` leaves out the minute that is not over.
    let table = if db.is_postgres() { "jobs.history" } else { "jobs_history" };
    let sum = format!("select cast(coalesce(sum(cancelled), 0) as bigint) as number from {table}");
    assert_eq!(db.number(&sum).await, 3);
}

support::on_each_database! {
    an_expired_job_never_runs,
}
