//! Prefetching: short jobs are prefetched, but never wait long, and are never harmed by it.

use std::time::Duration;

use diesel_jobs::{JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

const FEW: i64 = 50;

#[job]
async fn short() {}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

/// Starts one worker and runs a hundred short jobs. Then a long job holds its only slot, and more short jobs wait
/// behind it.
async fn stuck(db: &Db, probe: Probe) -> Running {
    let mut conn = db.conn().await;
    conn.enqueue_all((0..100).map(|_| Short {})).await;
    let worker = Running::start(db.worker(registry![Short, Held]).state(probe).slots(1));
    db.await_number(100, "select count(*) as number from jobs.job where state = 'completed'").await;
    conn.enqueue(Held {}).await;
    conn.enqueue_all((0..FEW).map(|_| Short {})).await;
    worker
}

async fn jobs_behind_a_long_job_run_on_other_workers(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = stuck(&db, probe.clone()).await;
    events.expect("started").await;
    // All prefetched jobs go back.
    let waiting = "select count(*) as number from jobs.job where state = 'available' and attempt = 0";
    db.await_number(FEW, waiting).await;
    // Now they would be claimed again if that were possible.
    tokio::time::sleep(Duration::from_millis(750)).await;
    // Some may have been prefetched only meanwhile.
    db.await_number(FEW, waiting).await;
    let claims = "select cast(max(lease) as bigint) as number from jobs.job where state = 'available'";
    assert!(db.number(claims).await <= 1, "they are not taken and given back again and again");
    let other = Running::start(db.worker(registry![Short]).slots(1));
    db.await_number(100 + FEW, "select count(*) as number from jobs.job where state = 'completed'").await;
    other.stop().await;
    events.open(1);
    worker.stop().await;
    let unclean = "select count(*) as number from jobs.job where attempt <> 1 or crashes <> 0";
    assert_eq!(db.number(unclean).await, 0);
}

async fn what_is_prefetched_goes_back_when_the_worker_stops(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = stuck(&db, probe).await;
    let held = events.expect("started").await.job;
    worker.handle().shutdown();
    let waiting = "select count(*) as number from jobs.job where state = 'available' and attempt = 0";
    db.await_number(FEW, waiting).await;
    events.open(1);
    worker.ended().await;
    assert_eq!(db.record(held).await.state, JobState::Completed);
}

support::on_each_database! {
    jobs_behind_a_long_job_run_on_other_workers,
    what_is_prefetched_goes_back_when_the_worker_stops,
}
