//! The results that a handler may return, and what happens to its job.

use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs::handler::{FailureKind, ResultExt as _};
use diesel_jobs::{Job as _, JobContext, JobError, JobState, Outcome, job};
use support::{Db, Running, registry};

#[job]
async fn completes() {}

#[job]
fn completes_on_a_thread() -> Outcome {
    Outcome::Complete
}

#[job]
async fn snoozes_twice(ctx: &JobContext) -> Outcome {
    match ctx.fencing_token() {
        1 | 2 => Outcome::Snooze(Duration::from_millis(50)),
        _ => Outcome::Complete,
    }
}

#[job]
async fn cancels() -> Outcome {
    Outcome::Cancel("the customer left".to_owned())
}

#[job]
async fn asks_for_an_hour() -> Result<(), JobError> {
    Err(JobError::msg("bank closed").retry_in(Duration::from_secs(3600)))
}

#[job]
async fn gives_up() -> Result<(), JobError> {
    Err(std::io::Error::other("card gone")).fatal()
}

#[job(max_attempts = 3, backoff = "fixed(1ms)")]
async fn fails_thrice(ctx: &JobContext) -> Result<(), std::io::Error> {
    Err(std::io::Error::other(format!("failure {}", ctx.attempt())))
}

#[job(backoff = "fixed(2h)")]
async fn waits_two_hours() -> Result<(), std::io::Error> {
    Err(std::io::Error::other("no"))
}

// The bound is 11 days, so that no random wait is so short that the job runs again before its worker has stopped.
#[job(backoff = "exponential(1000000s, 2500000s)")]
async fn waits_longer_and_longer() -> Result<(), std::io::Error> {
    Err(std::io::Error::other("no"))
}

fn ten_minutes_per_attempt(attempt: u16) -> Duration {
    Duration::from_secs(600 * u64::from(attempt))
}

#[job(backoff = ten_minutes_per_attempt)]
async fn waits_as_a_function_says() -> Result<(), std::io::Error> {
    Err(std::io::Error::other("no"))
}

fn divides_by_nothing(_: u16) -> Duration {
    panic!("no time for this")
}

#[job(backoff = divides_by_nothing)]
async fn has_a_backoff_that_panics() -> Result<(), std::io::Error> {
    Err(std::io::Error::other("no"))
}

async fn a_job_completes(db: Db) {
    let ids = [db.enqueue(Completes {}).await, db.enqueue(CompletesOnAThread {}).await];
    let stats = db.work(registry![Completes, CompletesOnAThread]).await;
    assert_eq!((stats.claimed, stats.completed), (2, 2));
    for id in ids {
        let (job, failures) = db.show(id).await;
        assert_eq!((job.state, job.attempt, failures.len()), (JobState::Completed, 1, 0));
    }
}

async fn a_snooze_consumes_no_attempt(db: Db) {
    let id = db.enqueue(SnoozesTwice {}).await;
    let stats = db.work(registry![SnoozesTwice]).await;
    assert_eq!((stats.claimed, stats.snoozed, stats.completed), (3, 2, 1));
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Completed, 1, 0));
}

async fn a_cancel_ends_the_job_with_its_reason(db: Db) {
    let id = db.enqueue(Cancels {}).await;
    assert_eq!(db.work(registry![Cancels]).await.cancelled, 1);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Cancelled, 1));
    assert_eq!((failures[0].kind, &*failures[0].message), (FailureKind::Cancelled, "the customer left"));
}

async fn a_fatal_error_discards_at_the_first_attempt(db: Db) {
    let id = db.enqueue(GivesUp {}).await;
    assert_eq!(db.work(registry![GivesUp]).await.discarded, 1);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Discarded, 1, 1));
    assert_eq!((failures[0].kind, &*failures[0].message), (FailureKind::Error, "card gone"));
}

async fn used_up_attempts_discard_the_job_and_all_its_errors_are_kept(db: Db) {
    let id = db.enqueue(FailsThrice {}).await;
    let stats = db.work(registry![FailsThrice]).await;
    assert_eq!((stats.claimed, stats.retried, stats.discarded), (3, 2, 1));
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Discarded, 3));
    let failures: Vec<_> = failures.iter().map(|failure| (failure.attempt, &*failure.message)).collect();
    assert_eq!(failures, [(1, "failure 1"), (2, "failure 2"), (3, "failure 3")]);
}

async fn max_attempts_of_a_single_job_win_over_its_kinds(db: Db) {
    let id = db.enqueue(FailsThrice {}.max_attempts(1)).await;
    db.work(registry![FailsThrice]).await;
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Discarded, 1, 1));
}

/// Runs the first attempts of these jobs. Returns how long each waits for its second one, by the database's clock.
async fn waits(db: &Db, registry: diesel_jobs::worker::Registry, ids: &[diesel_jobs::JobId]) -> Vec<TimeDelta> {
    let worker = Running::start(db.worker(registry));
    db.await_number(ids.len().try_into().unwrap(), "select count(distinct job_id) as number from jobs.job_error").await;
    worker.stop().await;
    let mut waits = Vec::new();
    for id in ids {
        let (job, failures) = db.show(*id).await;
        assert_eq!((job.state.is_waiting(), job.attempt, failures.len()), (true, 1, 1));
        waits.push(job.run_at - failures[0].at);
    }
    waits
}

/// Allows a difference: two statements write the failure and the new `run_at`, at different times.
fn is_about(wait: TimeDelta, seconds: i64) -> bool {
    (wait - TimeDelta::seconds(seconds)).abs() < TimeDelta::seconds(20)
}

async fn retry_in_overrides_the_backoff(db: Db) {
    let id = db.enqueue(AsksForAnHour {}).await;
    let waits = waits(&db, registry![AsksForAnHour], &[id]).await;
    assert!(is_about(waits[0], 3600), "{waits:?}");
}

async fn a_fixed_backoff_waits_its_time(db: Db) {
    let id = db.enqueue(WaitsTwoHours {}).await;
    let waits = waits(&db, registry![WaitsTwoHours], &[id]).await;
    assert!(is_about(waits[0], 7200), "{waits:?}");
}

async fn an_exponential_backoff_spreads_jobs_below_its_ceiling(db: Db) {
    let mut conn = db.conn().await;
    let ids = conn.enqueue_all((0..30).map(|_| WaitsLongerAndLonger {})).await;
    let mut waits = waits(&db, registry![WaitsLongerAndLonger], &ids).await;
    waits.sort_unstable();
    assert!(waits[29] <= TimeDelta::seconds(1_000_020), "{waits:?}");
    // All 30 uniform draws lie within 30 % of the bound less than once in 10^13 runs.
    assert!(waits[29] - waits[0] > TimeDelta::seconds(300_000), "{waits:?}");
}

async fn a_custom_backoff_is_asked(db: Db) {
    let id = db.enqueue(WaitsAsAFunctionSays {}).await;
    let waits = waits(&db, registry![WaitsAsAFunctionSays], &[id]).await;
    assert!(is_about(waits[0], 600), "{waits:?}");
}

async fn a_custom_backoff_that_panics_costs_a_minute_and_is_recorded(db: Db) {
    let id = db.enqueue(HasABackoffThatPanics {}).await;
    let waits = waits(&db, registry![HasABackoffThatPanics], &[id]).await;
    assert!(is_about(waits[0], 60), "{waits:?}");
    let failure = db.failures(id).await.remove(0);
    assert_eq!(failure.kind, FailureKind::Panic);
    assert!(failure.message.contains("outcomes.rs") && failure.message.contains("no time for this"), "{failure:?}");
}

support::on_each_database! {
    a_job_completes,
    a_snooze_consumes_no_attempt,
    a_cancel_ends_the_job_with_its_reason,
    a_fatal_error_discards_at_the_first_attempt,
    used_up_attempts_discard_the_job_and_all_its_errors_are_kept,
    max_attempts_of_a_single_job_win_over_its_kinds,
    retry_in_overrides_the_backoff,
    a_fixed_backoff_waits_its_time,
    an_exponential_backoff_spreads_jobs_below_its_ceiling,
    a_custom_backoff_is_asked,
    a_custom_backoff_that_panics_costs_a_minute_and_is_recorded,
}
