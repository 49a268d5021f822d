//! Finishes that claim the jobs to which they pass permits on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use diesel_jobs::{Worker, job};
use support::{Db, Running, registry};

use crate::lossy::Lossy;

#[job(concurrency("busy", limit = 2))]
async fn busy() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// Longer than what is prefetched.
const LONG: Duration = Duration::from_millis(60);

#[job(concurrency("long", limit = 2))]
async fn long() {
    tokio::time::sleep(LONG).await;
}

#[job]
async fn other() {
    tokio::time::sleep(LONG).await;
}

const COMPLETED: &str = "select count(*) as number from jobs.finished where state = 1 and kind = 'busy'";

#[test]
fn finishes_claim_the_next_jobs_of_their_key() {
    support::run(Db::postgres(), async |db| {
        db.conn().await.enqueue_all((0..400).map(|_| Busy {})).await;
        let storage = Lossy::losing(&db, 0, 0);
        let claimed_by_finishes = storage.claimed_by_finishes.clone();
        let worker = Worker::builder(Arc::new(storage)).registry(registry![Busy]).slots(2);
        let worker = Running::start(worker.poll_interval(Duration::from_secs(10)));
        db.await_number(400, COMPLETED).await;
        assert_eq!(worker.stop().await.completed, 400);
        assert!(claimed_by_finishes.load(Ordering::SeqCst) > 0);
    });
}

/// The jobs of the key have taken both slots of the worker again and again. They do not go on while others wait that
/// were due before them.
#[test]
fn other_jobs_that_wait_come_before_the_next_jobs_of_a_key() {
    support::run(Db::postgres(), async |db| {
        const STARTED: &str = "select count(*) as number from jobs.job where kind = 'long' and attempt > 0";
        db.conn().await.enqueue_all((0..1000).map(|_| Long {})).await;
        let worker = Running::start(db.worker(registry![Long, Other]).slots(2));
        support::until("the first jobs", async || (db.number(STARTED).await > 10).then_some(())).await;
        db.conn().await.enqueue_all((0..60).map(|_| Other {})).await;
        let before = db.number(STARTED).await;
        let others = "select count(*) as number from jobs.finished where state = 1 and kind = 'other'";
        db.await_number(60, others).await;
        let meanwhile = db.number(STARTED).await - before;
        worker.stop().await;
        // Until the worker hears of the others, the key goes on.
        assert!(meanwhile < 500, "{meanwhile} of 1000 jobs of the key began while 60 others waited");
    });
}

#[test]
fn a_worker_that_stops_keeps_no_job_of_a_key() {
    support::run(Db::postgres(), async |db| {
        db.conn().await.enqueue_all((0..2000).map(|_| Busy {})).await;
        for round in 1..=8 {
            let worker = Running::start(db.worker(registry![Busy]).slots(2));
            support::until("some jobs", async || (db.number(COMPLETED).await > round * 30).then_some(())).await;
            let stats = worker.stop().await;
            assert_eq!((stats.leases_lost, stats.discarded), (0, 0));
            assert_eq!(db.number("select count(*) as number from jobs.running").await, 0, "round {round}");
            let attempts = "select count(*) as number from jobs.ready where attempt > 0";
            assert_eq!(db.number(attempts).await, 0, "a job that has not started consumes no attempt");
        }
    });
}
