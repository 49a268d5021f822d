//! Plain functions that run one after another on one thread. Each attempt is separate.

use std::time::Duration;

use diesel_jobs::handler::FailureKind;
use diesel_jobs::{Job as _, JobContext, JobId, JobState, State, job};
use support::{Db, LIMIT, Probe, Process, Running, registry};
use worker_app::{Outlive, Oversleep};

#[job]
fn short(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "short");
}

#[job]
async fn not_plain(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "not plain");
}

/// It has two attempts, because a job at its last attempt is not prefetched.
#[job(timeout = "1h", max_attempts = 2, backoff = "fixed(1h)")]
fn stuck(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "stuck");
    probe.pass_blocking();
    probe.say(ctx, if ctx.is_cancelled() { "ended, asked to" } else { "ended" });
}

#[job(max_attempts = 2, backoff = "fixed(1h)")]
fn panicking(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "panicking");
    panic!("job {} is no good", ctx.id())
}

/// With the first jobs the worker measures that they are short. The others, and what comes after them, it prefetches
/// together.
const MANY: usize = 40;

async fn short_ones(db: &Db) -> Vec<JobId> {
    db.conn().await.enqueue_all((0..MANY).map(|_| Short {})).await
}

async fn a_job_after_many_on_its_thread_is_ended_by_its_timeout_and_keeps_the_slot(db: Db) {
    let first = short_ones(&db).await;
    let long = db.enqueue(Stuck {}).await;
    let last = db.enqueue(Short {}).await;
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Short, Stuck]).state(probe).declare_queue("aside");
    let worker = Running::start(worker.queue("default", 1).queue("aside", 1));
    for _ in &first {
        events.expect("short").await;
    }
    events.expect("stuck").await;
    worker.handle().end_time_limits();
    assert_eq!(db.await_state(long, JobState::Retrying).await.attempt, 1);
    assert_eq!(db.failures(long).await[0].kind, FailureKind::Timeout);
    // The claim of this job would bring that of the other queue, too, if there were a slot.
    let aside = db.enqueue(Short {}.queue("aside")).await;
    assert_eq!(events.expect("short").await.job, aside);
    assert!(events.rest().is_empty(), "its slot is taken");
    events.open(1);
    events.expect("ended, asked to").await;
    events.expect("short").await;
    db.await_state(last, JobState::Completed).await;
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.retried), (MANY as u64 + 2, 1));
}

async fn a_job_after_many_on_its_thread_is_given_back_at_the_end_of_the_grace_period(db: Db) {
    let first = short_ones(&db).await;
    let long = db.enqueue(Stuck {}).await;
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Short, Stuck]).state(probe).slots(1).grace_period(Duration::from_millis(50));
    let worker = Running::start(worker);
    for _ in &first {
        events.expect("short").await;
    }
    events.expect("stuck").await;
    // The function goes on.
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.released), (MANY as u64, 1));
    let record = db.record(long).await;
    assert_eq!((record.state, record.attempt), (JobState::Available, 0));
}

async fn a_slot_that_a_function_keeps_after_its_timeout_is_logged(db: Db) {
    let id = db.enqueue(Outlive { millis: 600_000 }).await;
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--slots", "1"]);
    worker.await_line(&format!(
        "job {id}: the attempt has ended, but its handler `outlive` continues and keeps a slot of queue `default`"
    ));
    db.await_state(id, JobState::Discarded).await;
}

async fn an_async_handler_that_ends_at_its_timeout_keeps_no_slot(db: Db) {
    let id = db.enqueue(Oversleep).await;
    let worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--slots", "1"]);
    db.await_state(id, JobState::Discarded).await;
    worker.signal("TERM");
    let said = worker.ended(LIMIT).stderr;
    assert!(!said.contains("keeps a slot") && !said.contains("has not returned"), "{said}");
}

/// The next prefetched job runs whatever it is, with what it needs.
async fn failures_and_other_handlers_do_not_stop_the_jobs_after_them(db: Db) {
    let mut ids = Vec::new();
    for round in 0..MANY / 4 {
        ids.push((db.enqueue(Short {}).await, JobState::Completed));
        ids.push((db.enqueue(NotPlain {}).await, JobState::Completed));
        if round % 5 == 0 {
            ids.push((db.enqueue(Panicking {}).await, JobState::Retrying));
        }
        ids.push((db.enqueue(Short {}).await, JobState::Completed));
    }
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Short, NotPlain, Panicking]).state(probe).slots(1));
    for (id, state) in &ids {
        assert_eq!(db.await_state(*id, *state).await.attempt, 1);
    }
    worker.stop().await;
    let mut ran: Vec<JobId> = events.rest().iter().map(|event| event.job).collect();
    let in_order = db.claimed_once(&ran).await;
    assert!(in_order.is_sorted(), "{in_order:?}");
    ran.sort_unstable();
    assert_eq!(ran, ids.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "each once");
    for (id, _) in ids.iter().filter(|(_, state)| *state == JobState::Retrying) {
        let message = &db.failures(*id).await[0].message;
        assert!(message.contains(&format!("job {id} is no good")), "{message}");
    }
}

support::on_each_database! {
    a_job_after_many_on_its_thread_is_ended_by_its_timeout_and_keeps_the_slot,
    a_job_after_many_on_its_thread_is_given_back_at_the_end_of_the_grace_period,
    a_slot_that_a_function_keeps_after_its_timeout_is_logged,
    an_async_handler_that_ends_at_its_timeout_keeps_no_slot,
    failures_and_other_handlers_do_not_stop_the_jobs_after_them,
}
