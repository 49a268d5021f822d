//! Jobs that do not wait if their limit is full, with whole workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel_jobs::rules::{Limit, OnFull, Rate};
use diesel_jobs::{Job as _, JobContext, JobState, State, job};
use support::{Db, Running, registry};
use tokio::sync::Notify;

#[derive(Clone, Default)]
struct Ran(Arc<AtomicUsize>);

#[derive(Clone, Default)]
struct Gate(Arc<Notify>);

impl Gate {
    /// Opens it again and again: a running job may not wait at it yet.
    async fn open(&self) {
        loop {
            self.0.notify_waiters();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[job(concurrency(limit = 1, by(account), on_full = "discard"))]
async fn import(account: i64, State(gate): State<Gate>, State(ran): State<Ran>) {
    ran.0.fetch_add(1, Ordering::SeqCst);
    gate.0.notified().await;
    let _ = account;
}

/// It runs until it is cancelled, and at the latest when the gate opens.
#[job(concurrency(limit = 1, by(document), on_full = "cancel_oldest"))]
async fn render(document: i64, ctx: &JobContext, State(gate): State<Gate>, State(ran): State<Ran>) {
    ran.0.fetch_add(1, Ordering::SeqCst);
    tokio::select! {
        () = ctx.cancelled() => {}
        () = gate.0.notified() => {}
    }
    let _ = document;
}

#[job]
async fn call(State(ran): State<Ran>) {
    ran.0.fetch_add(1, Ordering::SeqCst);
}

/// How many jobs were discarded and how many cancelled.
async fn counted(db: &Db) -> (i64, i64) {
    // `Operator::rates` leaves out the minute that is not over.
    let table = if db.is_postgres() { "jobs.history" } else { "jobs_history" };
    let sum = |column| format!("select cast(coalesce(sum({column}), 0) as bigint) as number from {table}");
    (db.number(&sum("discarded")).await, db.number(&sum("cancelled")).await)
}

async fn a_job_that_finds_its_limit_full_never_runs(db: Db) {
    let (ran, gate) = (Ran::default(), Gate::default());
    let worker = Running::start(db.worker(registry![Import, Call]).state(ran.clone()).state(gate.clone()));
    let first = db.enqueue(Import { account: 1 }).await;
    db.await_state(first, JobState::Running).await;
    let second = db.enqueue(Import { account: 1 }).await;
    let own = db.enqueue(Import { account: 1 }.concurrency(Limit::new("own", 9))).await;
    db.await_state(second, JobState::Discarded).await;
    db.await_state(own, JobState::Running).await;
    let rated = || Call.rate(Rate::new("calls", 1, Duration::from_secs(3600)).on_full(OnFull::Discard));
    let started = db.enqueue(rated()).await;
    db.await_state(started, JobState::Completed).await;
    let refused = db.enqueue(rated()).await;
    db.await_state(refused, JobState::Discarded).await;
    tokio::select! {
        () = gate.open() => {}
        _ = db.await_state(first, JobState::Completed) => {}
    }
    assert_eq!(ran.0.load(Ordering::SeqCst), 3);
    worker.stop().await;
    assert_eq!(counted(&db).await, (2, 0));
}

async fn the_newest_job_runs(db: Db) {
    let (ran, gate) = (Ran::default(), Gate::default());
    let worker = Running::start(db.worker(registry![Render]).state(ran.clone()).state(gate.clone()));
    let mut last = db.enqueue(Render { document: 1 }).await;
    let other = db.enqueue(Render { document: 2 }).await;
    for _ in 0..3 {
        db.await_state(last, JobState::Running).await;
        let new = db.enqueue(Render { document: 1 }).await;
        db.await_state(last, JobState::Cancelled).await;
        last = new;
    }
    db.await_state(last, JobState::Running).await;
    db.await_state(other, JobState::Running).await;
    tokio::select! {
        () = gate.open() => {}
        () = async {
            db.await_state(last, JobState::Completed).await;
            db.await_state(other, JobState::Completed).await;
        } => {}
    }
    assert_eq!(ran.0.load(Ordering::SeqCst), 5);
    worker.stop().await;
    assert_eq!(counted(&db).await, (0, 3));
}

support::on_each_database! {
    a_job_that_finds_its_limit_full_never_runs,
    the_newest_job_runs,
}
