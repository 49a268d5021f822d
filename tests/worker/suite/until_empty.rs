//! A worker that runs until nothing is left: with a limit, with skipped time, and without the jobs of later times.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs::operator::Asked;
use diesel_jobs::rules::Rate;
use diesel_jobs::worker::WorkerStats;
use diesel_jobs::{Job as _, JobContext, JobError, JobId, JobState, Outcome, State, Worker, WorkerBuilder, job};
use support::{Db, Probe, Process, Running, registry};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use worker_app::Linger;

use crate::lossy::Lossy;

type Times = UnboundedSender<DateTime<Utc>>;

#[job(backoff = "fixed(6h)", max_attempts = 3)]
async fn fail_twice(ctx: &JobContext, State(times): State<Times>) -> Result<(), JobError> {
    let _ = times.send(ctx.now());
    if ctx.attempt() < 3 { Err(JobError::msg("not yet")) } else { Ok(()) }
}

#[job]
async fn snooze_for_ever() -> Outcome {
    Outcome::Snooze(Duration::from_secs(3600))
}

#[job]
async fn fine() {}

#[job(sequence("orders", by(order)), max_attempts = 2, backoff = "fixed(6h)")]
async fn step(order: i64, fails: bool) -> Result<(), JobError> {
    if fails { Err(JobError::msg(format!("order {order} is lost"))) } else { Ok(()) }
}

#[job(concurrency("one", limit = 1))]
async fn alone(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

#[job(every = "1h", catch_up = "all")]
async fn hourly() {}

#[job(timeout = "1h", max_attempts = 1)]
fn keeps_its_slot(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass_blocking();
}

/// Misses ticks that are more than a minute old.
#[job(every = "1h")]
async fn on_the_hour() {}

/// Runs what is due.
async fn due_only(worker: WorkerBuilder) -> WorkerStats {
    support::within(support::LIMIT, "no job to be due", worker.build().unwrap().run_until_empty().due_only())
        .await
        .unwrap()
}

async fn skipped_time_brings_delays_and_backoffs_to_their_end(db: Db) {
    let (times, mut seen): (Times, _) = unbounded_channel();
    db.enqueue(FailTwice.delay(Duration::from_secs(24 * 3600))).await;
    db.enqueue(Fine.delay(Duration::from_secs(25 * 3600))).await;
    let begun = Utc::now();
    let worker = db.worker(registry![FailTwice, Fine]).state(times).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone());
    let stats = support::within(support::LIMIT, "all to run", run).await.unwrap();
    assert_eq!((stats.completed, stats.retried), (2, 2));
    let mut hours = Vec::new();
    while let Ok(time) = seen.try_recv() {
        let ahead: chrono::TimeDelta = time - begun;
        hours.push(ahead.num_minutes() as f64 / 60.0);
    }
    let expected = [24.0, 30.0, 36.0];
    let near = |(seen, expected): (&f64, f64)| (seen - expected).abs() < 0.1;
    assert!(hours.len() == 3 && hours.iter().zip(expected).all(near), "{hours:?}");
}

async fn a_limit_ends_a_job_that_snoozes_for_ever(db: Db) {
    db.enqueue(SnoozeForEver).await;
    db.enqueue(Fine).await;
    let worker = db.worker(registry![SnoozeForEver, Fine]).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone()).limit(20);
    let error = support::within(support::LIMIT, "the limit", run).await.unwrap_err().to_string();
    assert!(error.contains("attempts were begun, and jobs still wait"), "{error}");
    // As many as are allowed are no error.
    let worker = db.worker(registry![Fine]).build().unwrap();
    db.enqueue(Fine).await;
    let stats = support::within(support::LIMIT, "one job", worker.run_until_empty().limit(1)).await.unwrap();
    assert_eq!(stats.completed, 1);
}

async fn time_is_not_skipped_beside_another_worker(db: Db) {
    let other = Running::start(db.worker(registry![Fine]));
    let first = db.enqueue(Fine).await;
    db.await_state(first, JobState::Completed).await;
    db.enqueue(SnoozeForEver.delay(Duration::from_secs(3600))).await;
    let worker = db.worker(registry![SnoozeForEver]).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone());
    let error = support::within(support::LIMIT, "the refusal", run).await.unwrap_err().to_string();
    assert!(error.starts_with("time cannot be skipped: a worker on "), "{error}");
    other.stop().await;
}

async fn due_jobs_run_and_those_of_later_times_are_left(db: Db) {
    let due = db.enqueue(Fine).await;
    let later = db.enqueue(Fine.delay(Duration::from_secs(3600))).await;
    let fails = db.enqueue(FailTwice).await;
    let snoozes = db.enqueue(SnoozeForEver).await;
    let stats =
        due_only(db.worker(registry![Fine, FailTwice, SnoozeForEver]).state(unbounded_channel().0 as Times)).await;
    assert_eq!((stats.completed, stats.retried, stats.snoozed), (1, 1, 1));
    for (id, state) in [
        (due, JobState::Completed),
        (later, JobState::Scheduled),
        (fails, JobState::Retrying),
        (snoozes, JobState::Scheduled),
    ] {
        assert_eq!(db.record(id).await.state, state);
    }
}

async fn due_jobs_wait_for_tokens_and_not_for_jobs_that_are_left(db: Db) {
    for _ in 0..3 {
        db.enqueue(Fine.rate(Rate::new("calls", 1, Duration::from_millis(300)))).await;
    }
    db.enqueue(Step { order: 7, fails: true }).await;
    let behind = db.enqueue(Step { order: 7, fails: false }).await;
    let stats = due_only(db.worker(registry![Fine, Step])).await;
    assert_eq!((stats.completed, stats.retried), (3, 1));
    assert_eq!(db.record(behind).await.state, JobState::Held);
}

async fn a_job_whose_permit_another_worker_has_is_left(db: Db) {
    let (probe, mut events) = Probe::new();
    let other = Running::start(db.worker(registry![Alone]).state(probe.clone()));
    db.enqueue(Alone).await;
    events.expect("started").await;
    let waits = db.enqueue(Alone).await;
    assert_eq!(due_only(db.worker(registry![Alone]).state(probe)).await.claimed, 0);
    assert_eq!(db.record(waits).await.state, JobState::Held);
    events.open(2);
    db.await_state(waits, JobState::Completed).await;
    other.stop().await;
}

async fn ticks_that_are_due_at_the_start_run_before_the_end(db: Db) {
    assert_eq!(due_only(db.worker(registry![Hourly])).await.completed, 0);
    let hours = if db.is_postgres() { "interval '3 hours'" } else { "10800000000" };
    db.execute(&format!("update jobs.schedule set last_tick = last_tick - {hours}")).await;
    let late = Lossy { schedules_are_late: true.into(), ..Lossy::losing(&db, 0, 0) };
    let completed = due_only(Worker::builder(Arc::new(late)).registry(registry![Hourly])).await.completed;
    // An hour may begin while the test runs.
    assert!((3..=4).contains(&completed), "{completed}");
}

async fn ticks_that_were_missed_between_two_runs_create_no_jobs(db: Db) {
    due_only(db.worker(registry![OnTheHour])).await;
    let hours = if db.is_postgres() { "interval '3 hours'" } else { "10800000000" };
    db.execute(&format!("update jobs.schedule set last_tick = last_tick - {hours}")).await;
    // An hour may have begun less than a minute ago.
    let completed = due_only(db.worker(registry![OnTheHour])).await.completed;
    assert!(completed <= 1, "{completed}");
}

async fn a_brief_run_deletes_jobs_whose_retention_is_over(db: Db) {
    let id = db.enqueue(Fine).await;
    due_only(db.worker(registry![Fine])).await;
    assert_eq!(db.record(id).await.state, JobState::Completed);
    let over = if db.is_postgres() { "jobs.finished set expires_at = now()" } else { "jobs.job set expires_at = 1" };
    db.execute(&format!("update {over}")).await;
    due_only(db.worker(registry![Fine])).await;
    db.await_number(0, "select count(*) as number from jobs.job").await;
}

/// The database has executed the claim, so its job runs nowhere.
async fn the_job_of_a_claim_whose_reply_was_lost_runs_before_the_end(db: Db) {
    let id = db.enqueue(Fine).await;
    let worker = Worker::builder(Arc::new(Lossy::losing(&db, 1, 0))).registry(registry![Fine]);
    assert_eq!(due_only(worker.lease(Duration::from_secs(20))).await.completed, 1);
    let job = db.record(id).await;
    assert_eq!((job.state, job.attempt, job.crashes), (JobState::Completed, 1, 0));
}

async fn a_function_that_keeps_the_only_slot_does_not_keep_the_run(db: Db) {
    let (probe, mut events) = Probe::new();
    let kept = db.enqueue(KeepsItsSlot).await;
    let left = db.enqueue(KeepsItsSlot).await;
    let worker = db.worker(registry![KeepsItsSlot]).state(probe).slots(1).poll_interval(Duration::from_millis(100));
    let worker = worker.build().unwrap();
    let handle = worker.handle();
    let running = tokio::spawn(worker.run_until_empty().due_only().into_future());
    events.expect("started").await;
    handle.end_time_limits();
    let stats = support::within(support::LIMIT, "the end of the run", running).await.unwrap().unwrap();
    assert_eq!(stats.discarded, 1);
    assert_eq!((db.record(kept).await.state, db.record(left).await.state), (JobState::Discarded, JobState::Available));
    events.open(1);
}

async fn a_run_without_slots_ends_and_leaves_the_jobs(db: Db) {
    let id = db.enqueue(Fine).await;
    db.database().operator.set_slots("default", Some(0), "ada").await.unwrap();
    let stats = due_only(db.worker(registry![Fine]).poll_interval(Duration::from_millis(100))).await;
    assert_eq!((stats.claimed, db.record(id).await.state), (0, JobState::Available));
}

/// Starts a job in a worker that is then killed.
async fn left_running(db: &Db, max_attempts: u16) -> JobId {
    let id = db.enqueue(Linger { millis: 600_000 }.max_attempts(max_attempts)).await;
    let mut dies = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--queues", "default"]);
    db.await_state(id, JobState::Running).await;
    dies.kill();
    db.age_worker(dies.id()).await;
    id
}

/// The rescuer needs two heartbeats, so the run goes on until then.
fn after_a_crash(db: &Db) -> WorkerBuilder {
    db.worker(registry![Linger]).queue("tenant-*", 1).queue("default", 1).lease(Duration::from_secs(8))
}

async fn the_jobs_of_a_dead_worker_are_rescued_and_run(db: Db) {
    let id = left_running(&db, 2).await;
    assert_eq!(due_only(after_a_crash(&db)).await.completed, 1);
    let job = db.record(id).await;
    assert_eq!((job.state, job.attempt, job.crashes), (JobState::Completed, 2, 1));
}

async fn the_jobs_of_a_worker_without_a_row_are_rescued_and_run(db: Db) {
    let id = left_running(&db, 2).await;
    db.execute("delete from jobs.worker").await;
    assert_eq!(due_only(after_a_crash(&db)).await.completed, 1);
    assert_eq!(db.record(id).await.state, JobState::Completed);
}

async fn what_a_rescue_discards_counts_as_discarded(db: Db) {
    let id = left_running(&db, 1).await;
    let stats = due_only(after_a_crash(&db)).await;
    assert_eq!((stats.claimed, stats.discarded), (0, 1));
    assert_eq!(db.record(id).await.state, JobState::Discarded);
}

async fn a_run_that_an_operator_asks_to_be_quiet_ends(db: Db) {
    db.enqueue(Fine.delay(Duration::from_secs(3600))).await;
    let worker = db.worker(registry![Fine]).lease(Duration::from_secs(2)).build().unwrap();
    let running = tokio::spawn(worker.run_until_empty().into_future());
    let operator = &db.database().operator;
    let record = support::until("the worker", async || operator.workers().await.unwrap().pop()).await;
    assert!(operator.ask_worker(record.id, Asked::Quiet, "ada").await.unwrap());
    support::within(support::LIMIT, "the end", running).await.unwrap().unwrap();
}

support::on_each_database! {
    due_jobs_run_and_those_of_later_times_are_left,
    due_jobs_wait_for_tokens_and_not_for_jobs_that_are_left,
    a_job_whose_permit_another_worker_has_is_left,
    ticks_that_are_due_at_the_start_run_before_the_end,
    ticks_that_were_missed_between_two_runs_create_no_jobs,
    the_job_of_a_claim_whose_reply_was_lost_runs_before_the_end,
    a_function_that_keeps_the_only_slot_does_not_keep_the_run,
    a_run_without_slots_ends_and_leaves_the_jobs,
    a_brief_run_deletes_jobs_whose_retention_is_over,
    the_jobs_of_a_dead_worker_are_rescued_and_run,
    the_jobs_of_a_worker_without_a_row_are_rescued_and_run,
    what_a_rescue_discards_counts_as_discarded,
    a_run_that_an_operator_asks_to_be_quiet_ends,
    skipped_time_brings_delays_and_backoffs_to_their_end,
    a_limit_ends_a_job_that_snoozes_for_ever,
    time_is_not_skipped_beside_another_worker,
}
