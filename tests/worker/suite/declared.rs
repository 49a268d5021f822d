//! Programs that declare a schedule differently run side by side: what is stored stays while a live worker declares it.

use std::sync::Arc;

use diesel_jobs::worker::Registry;
use diesel_jobs::{JobContext, State, Worker, job};
use support::{Db, Probe, Rounds, Running, registry};

/// The program of the first version.
mod old {
    #[diesel_jobs::job(cron = "0 2 * * *")]
    pub(super) async fn report() {}
}

#[job(cron = "0 3 * * *")]
async fn report() {}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

/// A worker of this program, and the rounds of its services.
async fn start(db: &Db, registry: Registry) -> (Running, Arc<Rounds>) {
    let rounds = Arc::new(Rounds::default());
    let worker = Worker::builder(db.again().await.storage).registry(registry).recorder(rounds.clone());
    (Running::start(worker), rounds)
}

async fn stands(db: &Db) -> String {
    db.conn().await.texts("select expression as text from jobs.schedule").await.concat()
}

async fn await_schedule(db: &Db, expression: &str) {
    support::until(expression, async || (stands(db).await == expression).then_some(())).await;
}

/// The worker has offered its declaration more than once.
async fn offered(rounds: &Rounds) {
    rounds.more("declare_schedules", 2).await;
}

async fn an_older_program_that_starts_beside_a_newer_one_turns_no_schedule_back(db: Db) {
    let (newer, _) = start(&db, registry![Report]).await;
    await_schedule(&db, "0 3 * * *").await;
    let (older, rounds) = start(&db, registry![old::Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 3 * * *");
    older.stop().await;
    assert_eq!(stands(&db).await, "0 3 * * *");
    newer.stop().await;
}

async fn the_program_that_remains_after_a_deploy_or_a_rollback_decides(db: Db) {
    let (older, _) = start(&db, registry![old::Report]).await;
    await_schedule(&db, "0 2 * * *").await;
    let (newer, rounds) = start(&db, registry![Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 2 * * *");
    older.stop().await;
    await_schedule(&db, "0 3 * * *").await;
    // The older program comes back, and the newer one ends.
    let (older, rounds) = start(&db, registry![old::Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 3 * * *");
    newer.stop().await;
    await_schedule(&db, "0 2 * * *").await;
    older.stop().await;
}

async fn a_worker_that_drains_decides_no_more(db: Db) {
    let (probe, mut events) = Probe::new();
    db.enqueue(Held {}).await;
    let older = Running::start(db.worker(registry![old::Report, Held]).state(probe));
    events.expect("started").await;
    await_schedule(&db, "0 2 * * *").await;
    let (newer, rounds) = start(&db, registry![Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 2 * * *");
    older.handle().shutdown();
    await_schedule(&db, "0 3 * * *").await;
    events.open(1);
    older.ended().await;
    newer.stop().await;
}

support::on_each_database! {
    an_older_program_that_starts_beside_a_newer_one_turns_no_schedule_back,
    the_program_that_remains_after_a_deploy_or_a_rollback_decides,
    a_worker_that_drains_decides_no_more,
}
