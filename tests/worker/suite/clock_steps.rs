//! The database's clock steps by more than a lease. All heartbeats look old, but no worker is dead.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use diesel_jobs::{JobContext, JobState, State, Worker, job};
use support::{Db, Probe, Running, registry};

use crate::lossy::Lossy;

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    probe.pass().await;
}

#[job(queue = "aside")]
async fn aside() {}

/// Changes every row as a step of an hour does, and back. Both happen around a rescue, so that no heartbeat comes
/// between the step and the rescue: that heartbeat would not notice a step here, because the clock has not really
/// stepped.
const STEP: [&str; 2] = [
    "update jobs.worker set heartbeat_at = heartbeat_at - interval '1 hour'",
    "update jobs.worker set heartbeat_at = heartbeat_at + interval '1 hour' where heartbeat_at < now() - interval '30 minutes'",
];

async fn a_clock_that_steps_rescues_no_job_of_a_living_worker(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let busy = Running::start(db.worker(registry![Held]).state(probe).lease(Duration::from_secs(60)));
    events.expect("began").await;
    let other = db.again().await;
    let storage =
        Lossy { inner: other.storage, clock_steps: Some((db.conn().await, STEP)).into(), ..Lossy::losing(&db, 0, 0) };
    let stepped = storage.stepped.clone();
    // After a step it rescues nothing for one of its own leases, so a short one makes the test short. If the machine is
    // so slow that the lease ends, this worker has no job to lose.
    let rescuer = Worker::builder(Arc::new(storage)).registry(registry![Aside]).lease(Duration::from_secs(2));
    let rescuer = Running::start(rescuer);
    support::until("four steps", async || (stepped.load(Ordering::SeqCst) >= 4).then_some(())).await;
    events.open(1);
    let job = db.await_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    assert_eq!(busy.stop().await.leases_lost, 0);
    rescuer.stop().await;
}

support::on_postgres! {
    a_clock_that_steps_rescues_no_job_of_a_living_worker,
}
