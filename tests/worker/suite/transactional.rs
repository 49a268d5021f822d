//! Handlers that take the connection: their writes and the finish of their job are committed together or not at all.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{PgConnection, SqliteConnection};
use diesel_async::AsyncPgConnection;
use diesel_jobs::handler::{CompleteError, CompleteIn as _, FailureKind};
use diesel_jobs::operator::Operated;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, JobContext, JobError, JobState, Outcome, State, Worker, job};
use serde::{Deserialize, Serialize};
use support::{Db, Events, LIMIT, Probe, Running, registry, within};
use tokio::sync::Notify;

use crate::lossy::Lossy;

/// What a handler does after it has written its effect.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Then {
    Complete,
    Snooze,
    Fail,
    Panic,
    /// Waits until the test continues it.
    Wait,
    /// Ignores an error of the database.
    Swallow,
    /// Completes the job itself, although its transaction does.
    CompleteIn,
    /// Deletes the row of its own running job.
    Delete,
}

/// Returns the SQL of an effect. Without a name it is refused, because the column is `not null`.
fn effect(ctx: &JobContext, name: &str) -> String {
    format!("insert into effect (name, job) values ({name}, {})", ctx.id())
}

/// Deletes the row of this job, wherever it is.
fn deletion(ctx: &JobContext, table: &str) -> String {
    format!("delete from {table} where id = {}", ctx.id())
}

const WRITTEN: &str = "'written'";
const REFUSED: &str = "null";

async fn on_async_pg(
    conn: &mut AsyncPgConnection,
    then: Then,
    ctx: &JobContext,
    probe: Probe,
) -> Result<Outcome, JobError> {
    use diesel_async::SimpleAsyncConnection as _;
    conn.batch_execute(&effect(ctx, WRITTEN)).await.map_err(JobError::new)?;
    probe.say(ctx, "written");
    match then {
        Then::Wait => probe.pass().await,
        Then::Swallow => drop(conn.batch_execute(&effect(ctx, REFUSED)).await),
        Then::CompleteIn => ctx.complete_in(conn).await.map_err(JobError::new)?,
        Then::Delete => conn.batch_execute(&deletion(ctx, "jobs.running")).await.map_err(JobError::new)?,
        _ => {}
    }
    end(then)
}

fn on_a_thread<C: SimpleConnection>(
    then: Then,
    ctx: &JobContext,
    probe: &Probe,
    conn: &mut C,
    complete_in: fn(&JobContext, &mut C) -> Result<(), CompleteError>,
    running: &str,
) -> Result<Outcome, JobError> {
    conn.batch_execute(&effect(ctx, WRITTEN)).map_err(JobError::new)?;
    probe.say(ctx, "written");
    match then {
        Then::Wait => probe.pass_blocking(),
        Then::Swallow => drop(conn.batch_execute(&effect(ctx, REFUSED))),
        Then::CompleteIn => complete_in(ctx, conn).map_err(JobError::new)?,
        Then::Delete => conn.batch_execute(&deletion(ctx, running)).map_err(JobError::new)?,
        _ => {}
    }
    end(then)
}

fn end(then: Then) -> Result<Outcome, JobError> {
    match then {
        Then::Complete | Then::Wait | Then::Swallow | Then::CompleteIn | Then::Delete => Ok(Outcome::Complete),
        Then::Snooze => Ok(Outcome::Snooze(Duration::from_secs(3600))),
        Then::Fail => Err(JobError::msg("changed my mind").retry_in(Duration::from_secs(3600))),
        Then::Panic => panic!("dropped the ledger"),
    }
}

#[job(max_attempts = 2, backoff = "fixed(1h)")]
async fn async_pg(
    conn: &mut AsyncPgConnection,
    then: Then,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<Outcome, JobError> {
    on_async_pg(conn, then, ctx, probe).await
}

#[job(max_attempts = 2, backoff = "fixed(1h)", timeout = "1h")]
async fn async_pg_in_time(
    conn: &mut AsyncPgConnection,
    then: Then,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<Outcome, JobError> {
    on_async_pg(conn, then, ctx, probe).await
}

#[job(max_attempts = 2, backoff = "fixed(1h)")]
fn pg(conn: &mut PgConnection, then: Then, ctx: &JobContext, State(probe): State<Probe>) -> Result<Outcome, JobError> {
    on_a_thread(then, ctx, &probe, conn, |ctx, conn| ctx.complete_in(conn), "jobs.running")
}

#[job(max_attempts = 2, backoff = "fixed(1h)", timeout = "1h")]
fn pg_in_time(
    conn: &mut PgConnection,
    then: Then,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<Outcome, JobError> {
    on_a_thread(then, ctx, &probe, conn, |ctx, conn| ctx.complete_in(conn), "jobs.running")
}

#[job(max_attempts = 2, backoff = "fixed(1h)")]
fn sqlite(
    conn: &mut SqliteConnection,
    then: Then,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<Outcome, JobError> {
    on_a_thread(then, ctx, &probe, conn, |ctx, conn| ctx.complete_in(conn), "jobs_job")
}

#[job(max_attempts = 2, backoff = "fixed(1h)", timeout = "1h")]
fn sqlite_in_time(
    conn: &mut SqliteConnection,
    then: Then,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<Outcome, JobError> {
    on_a_thread(then, ctx, &probe, conn, |ctx, conn| ctx.complete_in(conn), "jobs_job")
}

/// The same handler on one type of connection, without and with a time limit.
struct Kind {
    registry: Registry,
    job: fn(Then) -> JobBuilder,
    in_time: fn(Then) -> JobBuilder,
}

fn async_pg_kind() -> Kind {
    Kind {
        registry: registry![AsyncPg, AsyncPgInTime],
        job: |then| AsyncPg { then }.into(),
        in_time: |then| AsyncPgInTime { then }.into(),
    }
}

fn pg_kind() -> Kind {
    Kind { registry: registry![Pg, PgInTime], job: |then| Pg { then }.into(), in_time: |then| PgInTime { then }.into() }
}

fn sqlite_kind() -> Kind {
    Kind {
        registry: registry![Sqlite, SqliteInTime],
        job: |then| Sqlite { then }.into(),
        in_time: |then| SqliteInTime { then }.into(),
    }
}

/// Starts a worker for this kind. Returns it with the events of its handlers.
fn start(db: &Db, kind: Kind) -> (Running, Events) {
    let (running, events, _) = start_watched(db, kind);
    (running, events)
}

/// The same. Returns also what is notified when a transaction is given up.
fn start_watched(db: &Db, kind: Kind) -> (Running, Events, Arc<Notify>) {
    let (probe, events) = Probe::new();
    let storage = Lossy::losing(db, 0, 0);
    let aborted = storage.transacted.clone();
    let worker = Worker::builder(Arc::new(storage))
        .registry(kind.registry)
        .poll_interval(Duration::from_millis(50))
        .state(probe);
    (Running::start(worker), events, aborted)
}

async fn effects_and_completion_are_committed_together(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(Then::Complete)).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("written").await;
    db.await_state(id, JobState::Completed).await;
    assert_eq!(worker.stop().await.completed, 1);
    assert_eq!(db.effects("written").await, 1);
}

async fn effects_and_a_snooze_are_committed_together(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(Then::Snooze)).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("written").await;
    db.await_number(1, "select count(*) as number from effect").await;
    assert_eq!(worker.stop().await.snoozed, 1);
    let job = db.record(id).await;
    assert_eq!((job.state.is_waiting(), job.attempt), (true, 0));
}

async fn fails_with(db: Db, kind: Kind, then: Then, failure_kind: FailureKind, message: &str) {
    let id = db.enqueue((kind.job)(then)).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("written").await;
    db.await_number(1, "select count(*) as number from jobs.job_error").await;
    assert_eq!(worker.stop().await.retried, 1);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state.is_waiting(), job.attempt), (true, 1));
    assert_eq!(failures[0].kind, failure_kind, "{failures:?}");
    assert!(failures[0].message.contains(message), "{failures:?}");
    assert_eq!(db.effects("written").await, 0, "rolled back");
}

/// Otherwise it would run again for ever: its finish finds no row, and the rollback brings the row back.
async fn a_job_that_completes_itself_twice_fails(db: Db, kind: Kind) {
    fails_with(db, kind, Then::CompleteIn, FailureKind::Error, "its own transaction completes the job").await;
}

async fn a_job_that_deletes_its_own_row_fails(db: Db, kind: Kind) {
    fails_with(db, kind, Then::Delete, FailureKind::Error, "changed the row of its own running job").await;
}

async fn an_error_rolls_back(db: Db, kind: Kind) {
    fails_with(db, kind, Then::Fail, FailureKind::Error, "changed my mind").await;
}

async fn a_panic_rolls_back(db: Db, kind: Kind) {
    fails_with(db, kind, Then::Panic, FailureKind::Panic, "dropped the ledger").await;
}

/// PostgreSQL does not continue a transaction after an error. So nothing can be committed, but the job must not be
/// lost.
async fn a_database_error_that_the_handler_swallowed_fails_the_attempt(db: Db, kind: Kind) {
    fails_with(db, kind, Then::Swallow, FailureKind::Error, "the handler continued after a statement failed").await;
}

/// SQLite undoes only the failed statement, and continues the transaction.
async fn a_database_error_that_the_handler_ignored_fails_only_its_statement(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(Then::Swallow)).await;
    let (worker, _events) = start(&db, kind);
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
    assert_eq!(db.effects("written").await, 1);
}

async fn a_timeout_rolls_back(db: Db, kind: Kind) {
    let id = db.enqueue((kind.in_time)(Then::Wait)).await;
    let (worker, mut events, aborted) = start_watched(&db, kind);
    events.expect("written").await;
    worker.handle().end_time_limits();
    within(LIMIT, "the end of the transaction", aborted.notified()).await;
    if !db.is_postgres() {
        // The handler holds SQLite's only write lock. Nothing can be recorded before it ends, and a thread cannot be
        // stopped.
        events.open(1);
    }
    db.await_number(1, "select count(*) as number from jobs.job_error").await;
    // What a thread does after its time limit is rolled back, too.
    events.open(1);
    assert_eq!(worker.stop().await.retried, 1);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state.is_waiting(), job.attempt, failures[0].kind), (true, 1, FailureKind::Timeout));
    assert_eq!(db.effects("written").await, 0, "rolled back");
}

async fn a_lost_lease_rolls_back(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(Then::Wait)).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("written").await;
    assert_eq!(db.database().operator.cancel(id).await.unwrap(), Operated::Done);
    events.open(1);
    let stats = worker.stop().await;
    assert_eq!((stats.leases_lost, stats.completed), (1, 0));
    assert_eq!(db.record(id).await.state, JobState::Cancelled);
    assert_eq!(db.effects("written").await, 0, "rolled back");
}

async fn a_shutdown_gives_the_job_back_and_rolls_back(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(Then::Wait)).await;
    let (worker, mut events, aborted) = start_watched(&db, kind);
    events.expect("written").await;
    worker.handle().shutdown_now();
    // A thread cannot be stopped. It runs to its end, and what it did is rolled back.
    within(LIMIT, "the end of the transaction", aborted.notified()).await;
    events.open(1);
    assert_eq!(worker.ended().await.released, 1);
    let job = db.record(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Available, 0));
    assert_eq!(db.effects("written").await, 0, "rolled back");
}

/// Makes one `#[test]` per function, for one type of connection.
macro_rules! on {
    ($module:ident: $db:ident, $kind:ident { $($claim:ident),+ $(,)? }) => {
        mod $module {
            $(#[test] fn $claim() {
                support::run(support::Db::$db(), |db| super::$claim(db, super::$kind()));
            })+
        }
    };
}

on!(on_async_pg_connection: postgres, async_pg_kind {
    effects_and_completion_are_committed_together,
    effects_and_a_snooze_are_committed_together,
    an_error_rolls_back,
    a_job_that_completes_itself_twice_fails,
    a_job_that_deletes_its_own_row_fails,
    a_panic_rolls_back,
    a_database_error_that_the_handler_swallowed_fails_the_attempt,
    a_timeout_rolls_back,
    a_lost_lease_rolls_back,
    a_shutdown_gives_the_job_back_and_rolls_back,
});

on!(on_pg_connection: postgres, pg_kind {
    effects_and_completion_are_committed_together,
    effects_and_a_snooze_are_committed_together,
    an_error_rolls_back,
    a_job_that_completes_itself_twice_fails,
    a_job_that_deletes_its_own_row_fails,
    a_panic_rolls_back,
    a_database_error_that_the_handler_swallowed_fails_the_attempt,
    a_timeout_rolls_back,
    a_lost_lease_rolls_back,
    a_shutdown_gives_the_job_back_and_rolls_back,
});

// A lease cannot be lost during a transaction of SQLite, because the transaction holds the only write lock.
on!(on_sqlite_connection: sqlite, sqlite_kind {
    effects_and_completion_are_committed_together,
    effects_and_a_snooze_are_committed_together,
    an_error_rolls_back,
    a_job_that_completes_itself_twice_fails,
    a_job_that_deletes_its_own_row_fails,
    a_panic_rolls_back,
    a_database_error_that_the_handler_ignored_fails_only_its_statement,
    a_timeout_rolls_back,
    a_shutdown_gives_the_job_back_and_rolls_back,
});
