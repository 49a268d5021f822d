//! A worker that runs until nothing is left: with a limit, and with skipped time.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs::{Job as _, JobContext, JobError, Outcome, State, job};
use support::{Db, Running, registry};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

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
    db.await_state(first, diesel_jobs::JobState::Completed).await;
    db.enqueue(SnoozeForEver.delay(Duration::from_secs(3600))).await;
    let worker = db.worker(registry![SnoozeForEver]).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone());
    let error = support::within(support::LIMIT, "the refusal", run).await.unwrap_err().to_string();
    assert!(error.starts_with("time cannot be skipped: a worker on "), "{error}");
    other.stop().await;
}

support::on_each_database! {
    skipped_time_brings_delays_and_backoffs_to_their_end,
    a_limit_ends_a_job_that_snoozes_for_ever,
    time_is_not_skipped_beside_another_worker,
}
