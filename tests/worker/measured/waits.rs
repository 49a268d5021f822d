//! Waits that a worker ends early: for the word that a job was cancelled, for a notification of plain SQL, for more
//! jobs of a batch, for the next poll.

use std::time::{Duration, Instant};

use diesel_jobs::JobState;
use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBatch};
use diesel_jobs::operator::Operated;
use diesel_jobs::prelude::*;
use support::{Db, Probe, Running, registry};

use crate::table::alone_on;

/// Watches only its cancellation token.
#[job]
fn listens(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
    probe.say(ctx, "was told");
}

#[job]
async fn tells(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "told");
}

#[job(queue = "narrow")]
async fn short() {}

#[job(queue = "idle")]
async fn never_comes() {}

/// How long a batch of [`Gathered`] waits for more jobs.
const WAIT: Duration = Duration::from_secs(2);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 3, wait = "2s"))]
struct Gathered {}

impl HandleBatch for Gathered {
    async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        let probe: &Probe = ctx.state().expect("the tests give one");
        probe.say(&ctx.jobs()[0], jobs.len().to_string());
        ctx.complete_all()
    }
}

#[track_caller]
fn within(bar: Duration, since: Instant, what: &str) {
    let waited = since.elapsed();
    assert!(waited < bar, "{what}: {waited:?}");
}

async fn a_handler_is_told_of_its_cancellation_within_ten_seconds(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Listens {}).await;
    let worker = Running::start(db.worker(registry![Listens]).state(probe));
    events.expect("began").await;
    let cancelled = Instant::now();
    assert_eq!(db.database().operator.cancel(id).await.unwrap(), Operated::Done);
    events.expect("was told").await;
    within(Duration::from_secs(10), cancelled, "from the cancellation to the handler");
    worker.stop().await;
}

async fn a_full_batch_starts_before_its_time_is_over(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Gathered]).state(probe).slots(4));
    let mut conn = db.conn().await;
    let begun = Instant::now();
    for _ in 0..3 {
        conn.enqueue(Gathered {}).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    events.expect("3").await;
    within(WAIT - Duration::from_millis(100), begun, "a full batch");
    worker.stop().await;
}

async fn a_worker_that_stops_does_not_wait_for_a_full_batch(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Gathered]).state(probe).slots(1));
    let id = db.enqueue(Gathered {}).await;
    db.await_state(id, JobState::Running).await;
    let begun = Instant::now();
    worker.stop().await;
    within(Duration::from_millis(1500), begun, "the stop");
    events.expect("1").await;
}

async fn free_slots_of_a_queue_do_not_wait_for_a_poll_of_another(db: Db) {
    db.conn().await.enqueue_all((0..300).map(|_| Short {})).await;
    let worker = db.worker(registry![Short, NeverComes]).queue("narrow", 2).queue("idle", 2);
    let begun = Instant::now();
    let stats = worker.poll_interval(Duration::from_secs(10)).build().unwrap().run_until_empty().await.unwrap();
    assert_eq!(stats.completed, 300);
    within(Duration::from_secs(9), begun, "300 jobs");
}

async fn plain_sql_wakes_a_worker_within_ten_seconds(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Tells]).state(probe).poll_interval(Duration::from_secs(60)));
    db.await_number(1, "select count(*) as number from jobs.worker where idle").await;
    let mut conn = db.conn().await;
    let enqueued = Instant::now();
    conn.execute("select jobs.enqueue('tells')").await;
    events.expect("told").await;
    within(Duration::from_secs(10), enqueued, "from the enqueue to the handler");
    worker.stop().await;
}

alone_on! {
    on_postgres by postgres {
        a_handler_is_told_of_its_cancellation_within_ten_seconds,
        a_full_batch_starts_before_its_time_is_over,
        a_worker_that_stops_does_not_wait_for_a_full_batch,
        free_slots_of_a_queue_do_not_wait_for_a_poll_of_another,
        plain_sql_wakes_a_worker_within_ten_seconds,
    }
    on_sqlite by sqlite {
        a_handler_is_told_of_its_cancellation_within_ten_seconds,
        a_full_batch_starts_before_its_time_is_over,
        a_worker_that_stops_does_not_wait_for_a_full_batch,
        free_slots_of_a_queue_do_not_wait_for_a_poll_of_another,
    }
}
