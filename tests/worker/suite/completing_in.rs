//! `ctx.complete_in`: handlers that open a transaction of their own and finish the job with it.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::{SimpleConnection as _, TransactionManager as _};
use diesel::{Connection as _, SqliteConnection};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _, TransactionManager as _};
use diesel_jobs::handler::CompleteIn as _;
use diesel_jobs::{JobContext, JobError, JobState, State, job};
use serde::{Deserialize, Serialize};
use support::{Db, Probe, Rounds, Running, registry};

/// The database's URL, for the handler.
#[derive(Clone)]
struct Url(String);

/// What the handler does after `complete_in`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Then {
    Commit,
    Rollback,
    ForgetTheCommit,
    CommitAndFail,
    RollbackAndFail,
}

const EFFECT: &str = "insert into effect (name) values ('written')";

#[job(max_attempts = 2, backoff = "fixed(1h)")]
async fn on_async_pg(then: Then, ctx: &JobContext, State(url): State<Url>) -> Result<(), JobError> {
    let mut conn = AsyncPgConnection::establish(&url.0).await.map_err(JobError::new)?;
    type Manager = <AsyncPgConnection as diesel_async::AsyncConnection>::TransactionManager;
    Manager::begin_transaction(&mut conn).await.map_err(JobError::new)?;
    conn.batch_execute(EFFECT).await.map_err(JobError::new)?;
    ctx.complete_in(&mut conn).await.map_err(JobError::new)?;
    match then {
        Then::Commit | Then::CommitAndFail => Manager::commit_transaction(&mut conn).await,
        Then::Rollback | Then::RollbackAndFail => Manager::rollback_transaction(&mut conn).await,
        Then::ForgetTheCommit => Ok(()),
    }
    .map_err(JobError::new)?;
    end(then)
}

#[job(max_attempts = 2, backoff = "fixed(1h)")]
fn on_sqlite(then: Then, ctx: &JobContext, State(url): State<Url>) -> Result<(), JobError> {
    let path = url.0.strip_prefix("sqlite://").ok_or_else(|| JobError::msg("not SQLite"))?;
    let mut conn = SqliteConnection::establish(path).map_err(JobError::new)?;
    conn.batch_execute("pragma busy_timeout = 10000").map_err(JobError::new)?;
    type Manager = <SqliteConnection as diesel::Connection>::TransactionManager;
    Manager::begin_transaction(&mut conn).map_err(JobError::new)?;
    conn.batch_execute(EFFECT).map_err(JobError::new)?;
    ctx.complete_in(&mut conn).map_err(JobError::new)?;
    match then {
        Then::Commit | Then::CommitAndFail => Manager::commit_transaction(&mut conn),
        Then::Rollback | Then::RollbackAndFail => Manager::rollback_transaction(&mut conn),
        Then::ForgetTheCommit => Ok(()),
    }
    .map_err(JobError::new)?;
    end(then)
}

fn end(then: Then) -> Result<(), JobError> {
    match then {
        Then::CommitAndFail | Then::RollbackAndFail => Err(JobError::msg("afterwards")),
        _ => Ok(()),
    }
}

/// Runs one job to the end of its first attempt. Returns its state, its failures and the number of effects.
async fn after(db: &Db, then: Then) -> (JobState, Vec<String>, i64) {
    let id = match db.is_postgres() {
        true => db.enqueue(OnAsyncPg { then }).await,
        false => db.enqueue(OnSqlite { then }).await,
    };
    let worker = db.worker(registry![OnAsyncPg, OnSqlite]).state(Url(db.url().to_owned()));
    let worker = Running::start(worker.grace_period(Duration::from_secs(600)));
    support::until("the claim", async || (worker.handle().stats().claimed == 1).then_some(())).await;
    // The worker is not stopped earlier, because a claimed job that has not started would go back.
    support::until("its end", async || (db.show(id).await.0.state != JobState::Running).then_some(())).await;
    let stats = worker.stop().await;
    assert_eq!((stats.claimed, stats.leases_lost), (1, 0));
    let (job, failures) = db.show(id).await;
    (job.state, failures.into_iter().map(|failure| failure.message).collect(), db.effects("written").await)
}

async fn a_commit_finishes_the_job(db: Db) {
    assert_eq!(after(&db, Then::Commit).await, (JobState::Completed, vec![], 1));
}

async fn a_rollback_fails_the_attempt_and_says_why(db: Db) {
    let (state, failures, effects) = after(&db, Then::Rollback).await;
    assert_eq!((state.is_waiting(), failures.len(), effects), (true, 1, 0));
    assert!(failures[0].contains("did not commit"), "{failures:?}");
}

async fn a_forgotten_commit_fails_the_attempt_and_says_why(db: Db) {
    let (state, failures, effects) = after(&db, Then::ForgetTheCommit).await;
    assert_eq!((state.is_waiting(), failures.len(), effects), (true, 1, 0));
    assert!(failures[0].contains("did not commit"), "{failures:?}");
}

async fn an_error_after_the_commit_does_not_undo_it(db: Db) {
    assert_eq!(after(&db, Then::CommitAndFail).await, (JobState::Completed, vec![], 1));
}

async fn an_error_after_a_rollback_is_the_failure(db: Db) {
    let (state, failures, effects) = after(&db, Then::RollbackAndFail).await;
    assert_eq!((state.is_waiting(), failures, effects), (true, vec!["afterwards".to_owned()], 0));
}

/// Completes its job, and then works until the test lets it end.
#[job(max_attempts = 2)]
async fn works_on(ctx: &JobContext, State(url): State<Url>, State(probe): State<Probe>) -> Result<(), JobError> {
    match url.0.strip_prefix("sqlite://") {
        None => {
            let mut conn = AsyncPgConnection::establish(&url.0).await.map_err(JobError::new)?;
            conn.transaction(async |conn| ctx.complete_in(conn).await.map_err(diesel::result::Error::from)).await
        }
        Some(path) => {
            let mut conn = SqliteConnection::establish(path).map_err(JobError::new)?;
            conn.batch_execute("pragma busy_timeout = 10000").map_err(JobError::new)?;
            conn.transaction(|conn| ctx.complete_in(conn).map_err(diesel::result::Error::from))
        }
    }
    .map_err(JobError::new)?;
    probe.say(ctx, "completed");
    tokio::select! {
        () = ctx.cancelled() => probe.say(ctx, "was told to stop"),
        () = probe.pass() => probe.say(ctx, "did everything"),
    }
    Ok(())
}

async fn a_handler_that_works_on_after_its_commit_is_left_alone(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(WorksOn {}).await;
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![WorksOn]).state(Url(db.url().to_owned())).state(probe).recorder(rounds.clone());
    // The reconciler runs six times in a lease.
    let worker = Running::start(worker.lease(Duration::from_secs(10)));
    events.expect("completed").await;
    db.await_state(id, JobState::Completed).await;
    // The reconciler asks an attempt to stop in the round in which its lease is missing.
    rounds.more("leases", 3).await;
    events.open(1);
    events.expect("did everything").await;
    assert_eq!(worker.stop().await.leases_lost, 0);
}

support::on_each_database! {
    a_handler_that_works_on_after_its_commit_is_left_alone,
    a_commit_finishes_the_job,
    a_rollback_fails_the_attempt_and_says_why,
    a_forgotten_commit_fails_the_attempt_and_says_why,
    an_error_after_the_commit_does_not_undo_it,
    an_error_after_a_rollback_is_the_failure,
}
