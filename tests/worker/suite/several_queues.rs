//! A worker of several queues claims for those with free slots. Slots of other queues that become free during the claim
//! must be used, too.

use std::time::Duration;

use diesel_jobs::{JobContext, State, job};
use support::{Db, Probe, Running, registry};

#[job(queue = "idle")]
async fn never_comes() {}

#[job(queue = "narrow")]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

/// The slot must be filled although no notification follows.
async fn a_slot_freed_while_another_queue_is_claimed_for_is_filled(db: Db) {
    const CLAIMS: &str = "select count(*) as number from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like 'with claimed%'";
    let (probe, mut events) = Probe::new();
    db.conn().await.enqueue_all((0..2).map(|_| Held {})).await;
    let worker = db.worker(registry![Held, NeverComes]).queue("narrow", 1).queue("idle", 1).state(probe);
    let worker = Running::start(worker.poll_interval(Duration::from_secs(3600)));
    events.expect("started").await;
    db.await_number(1, "select count(*) as number from jobs.worker where idle").await;
    let mut obstacle = db.conn().await;
    obstacle.execute("begin; lock jobs.running in exclusive mode").await;
    db.execute("select pg_notify('jobs', 'idle')").await;
    db.await_number(1, CLAIMS).await;
    events.open(1);
    // The handler ends and its slot becomes free before the claim for the other queue returns.
    tokio::time::sleep(Duration::from_millis(300)).await;
    obstacle.execute("commit").await;
    events.expect("started").await;
    events.open(1);
    worker.stop().await;
}

support::on_postgres! {
    a_slot_freed_while_another_queue_is_claimed_for_is_filled,
}
