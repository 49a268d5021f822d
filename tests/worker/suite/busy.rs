//! A worker that finds jobs all the time is not notified of each of them. Otherwise the enqueues would wait for one
//! another.

use std::time::Duration;

use diesel_jobs::{JobContext, State, job};
use support::{Db, Probe, Running, registry, within};

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// Whether the flag is cleared depends on claims that bring jobs, and not on how fast jobs are enqueued: some always
/// wait.
async fn a_worker_that_always_has_jobs_clears_its_idle_flag_and_sets_it_again(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    let worker = db.worker(registry![Held]).state(probe).slots(1).poll_interval(Duration::from_secs(3600));
    let worker = Running::start(worker);
    db.await_number(1, IDLE).await;
    conn.enqueue_all((0..50).map(|_| Held {})).await;
    within(support::LIMIT, "the flag to be cleared", async {
        while conn.number(IDLE).await == 1 {
            events.expect("started").await;
            conn.enqueue(Held {}).await;
            events.open(1);
        }
    })
    .await;
    events.open(100_000);
    db.await_number(1, IDLE).await;
    // The next job wakes the worker.
    conn.enqueue(Held {}).await;
    db.await_number(0, "select count(*) as number from jobs.job where state <> 'completed'").await;
    worker.stop().await;
}

support::on_postgres! { a_worker_that_always_has_jobs_clears_its_idle_flag_and_sets_it_again }
