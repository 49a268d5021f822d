//! What an idle worker sends, and that it misses nothing.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs::{Database, JobState, Worker, job};
use support::{Db, Rounds, Running, registry};

/// No worker polls so seldom that a test could wait for it.
const NEVER: Duration = Duration::from_secs(3600);

/// A worker that is idle, or soon will be.
const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// So many polls pass before a service of an idle worker runs that has nothing to do.
const POLLS: usize = 50;

#[job]
async fn quick() {}

#[job]
async fn lazy() {}

/// Its program has a rule, so a worker that is not idle looks for held jobs once a second.
#[job(concurrency(limit = 1))]
async fn limited() {}

/// The services are counted in polls, and not in time. Without the idle mode, there would be a read of the settings for
/// every nine polls. The lease is so long that no stall of the machine delays a heartbeat too much.
async fn an_idle_worker_looks_for_work_with_its_polls_alone(db: Db) {
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Quick, Limited]).poll_interval(Duration::from_millis(100)).lease(NEVER);
    let worker = Running::start(worker.recorder(rounds.clone()));
    db.await_number(1, IDLE).await;
    // Meanwhile each service has run for the first time.
    rounds.more("next_due", 2 * POLLS).await;
    let services = ["overrides", "rescue", "admit", "schedules", "step_operation", "prune", "fold_history", "leases"];
    let before = services.map(|service| rounds.ended(service));
    let polls = rounds.ended("next_due");
    rounds.more("next_due", 3 * POLLS).await;
    let ran: Vec<usize> = services.iter().zip(before).map(|(service, before)| rounds.ended(service) - before).collect();
    let most = (rounds.ended("next_due") - polls).div_ceil(POLLS) + 1;
    assert!(ran.iter().all(|ran| *ran <= 2 * most), "{services:?} ran {ran:?} times");
    assert!(ran[..3].iter().all(|ran| *ran <= most), "{services:?} ran {ran:?} times");
    worker.stop().await;
}

/// As behind a pooler in transaction mode, all connections say that they have the same session. So the worker does not
/// listen.
const POOLED: &str = "create table asked ();
    create function pg_backend_pid() returns integer language sql
        as 'insert into public.asked default values; select 7'";

async fn a_worker_that_no_notification_reaches_follows_its_settings(db: Db) {
    db.execute(POOLED).await;
    let rounds = Arc::<Rounds>::default();
    let pooled = db.url().replace("search_path%3Dpublic", "search_path%3Dpublic,pg_catalog");
    let pooled = Database::open(&pooled, 1).await.unwrap();
    let worker = Worker::builder(pooled.storage).registry(registry![Quick, Lazy]).recorder(rounds.clone());
    let worker = Running::start(worker.poll_interval(Duration::from_millis(200)).lease(NEVER));
    db.await_number(1, IDLE).await;
    // It reads its settings about once in five polls until it is idle.
    let mut reads = None;
    while reads.replace(rounds.ended("overrides")) != Some(rounds.ended("overrides")) {
        rounds.more("next_due", 10).await;
    }
    let operator = db.database().operator.clone();
    let polls = rounds.ended("next_due");
    assert!(operator.pause_kind("lazy", "ada", None).await.unwrap());
    rounds.more("overrides", 1).await;
    let polls = rounds.ended("next_due") - polls;
    assert!(polls < POLLS / 2, "it followed after {polls} polls");
    // A pause that comes together with jobs is followed before the jobs are claimed.
    assert!(
        operator.pause_kind("quick", "ada", None).await.unwrap() && operator.resume_kind("lazy", "ada").await.unwrap()
    );
    let (paused, other) = (db.enqueue(Quick {}).await, db.enqueue(Lazy {}).await);
    db.await_state(other, JobState::Completed).await;
    assert_eq!(db.record(paused).await.state, JobState::Available);
    assert!(operator.resume_kind("quick", "ada").await.unwrap());
    assert_eq!(db.await_state(paused, JobState::Completed).await.attempt, 1);
    assert!(db.number("select count(*) as number from asked").await > 0);
    worker.stop().await;
}

/// Without slots it does not poll, and its services must not wait for that.
async fn a_worker_without_slots_goes_on_with_its_services(db: Db) {
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(db.worker(registry![Quick]).lease(Duration::from_secs(1)).recorder(rounds.clone()));
    db.await_number(1, IDLE).await;
    rounds.more("next_due", POLLS).await;
    assert!(db.database().operator.set_slots("default", Some(0), "ada").await.unwrap());
    rounds.more("overrides", 1).await;
    rounds.more("rescue", 20).await;
    worker.stop().await;
}

/// Its new row has no idle flag, without which nobody would notify it.
async fn an_idle_worker_that_was_declared_dead_is_notified_again(db: Db) {
    let worker = db.worker(registry![Quick]).lease(Duration::from_secs(1)).poll_interval(NEVER);
    let worker = Running::start(worker);
    db.await_number(1, IDLE).await;
    db.execute("delete from jobs.worker").await;
    db.await_number(1, IDLE).await;
    let id = db.enqueue(Quick {}).await;
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
}

support::on_postgres! {
    an_idle_worker_looks_for_work_with_its_polls_alone,
    a_worker_that_no_notification_reaches_follows_its_settings,
    a_worker_without_slots_goes_on_with_its_services,
    an_idle_worker_that_was_declared_dead_is_notified_again,
}
