//! The database's clock steps by more than a lease. All heartbeats look old, but no worker is dead.

use std::time::Duration;

use diesel_jobs::{JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

const LEASE: Duration = Duration::from_secs(2);

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    probe.pass().await;
}

#[job(queue = "aside")]
async fn aside() {}

/// The rescuer's newest heartbeat.
const BEAT: &str = "select coalesce(max(extract(epoch from heartbeat_at) * 1000)::bigint, 0) as number
     from jobs.worker where 'aside' = any(queues)";

async fn a_clock_that_steps_rescues_no_job_of_a_living_worker(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let busy = Running::start(db.worker(registry![Held]).state(probe).lease(LEASE));
    events.expect("began").await;
    let rescuer = diesel_jobs::Worker::builder(db.again().await.storage).registry(registry![Aside]).lease(LEASE);
    let rescuer = Running::start(rescuer);
    db.await_number(2, "select count(*) as number from jobs.worker").await;
    // Both workers have sent enough heartbeats to be allowed to rescue.
    tokio::time::sleep(LEASE).await;
    // Changes every row as a step of an hour would. The rescuer must rescue before its next heartbeat: that heartbeat
    // would not notice a step here, because the clock has not really stepped.
    for _ in 0..4 {
        let before = db.number(BEAT).await;
        support::until("a beat", async || (db.number(BEAT).await != before).then_some(())).await;
        db.execute("update jobs.worker set heartbeat_at = heartbeat_at - interval '1 hour'").await;
        tokio::time::sleep(LEASE + LEASE / 2).await;
    }
    events.open(1);
    let job = db.await_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    assert_eq!(busy.stop().await.leases_lost, 0);
    rescuer.stop().await;
}

support::on_postgres! {
    a_clock_that_steps_rescues_no_job_of_a_living_worker,
}
