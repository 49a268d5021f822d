//! Batch handlers that take the connection: their writes and the ends of all their jobs are committed together or not
//! at all.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{PgConnection, SqliteConnection};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::handler::{
    BatchContext, BatchHandled, FailureKind, HandleBatchIn, HandleBlockingBatchIn, Layer, States,
};
use diesel_jobs::operator::{Operated, Operator};
use diesel_jobs::prelude::*;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, JobId, JobState, NewJob, Worker};
use serde::{Deserialize, Serialize};
use support::{Db, Events, LIMIT, Probe, Process, Running, registry, within};
use tokio::sync::Notify;

use crate::lossy::Lossy;

/// What the handler does with a job. Each job has another number.
#[derive(Serialize, Deserialize)]
struct Args {
    number: i64,
    does: String,
}

macro_rules! kind {
    ($name:ident, $kind:literal, $($option:tt)*) => {
        #[derive(Serialize, Deserialize, Job)]
        #[job(batch(max = 4), kind = $kind, max_attempts = 5, backoff = "fixed(1h)", $($option)*)]
        struct $name {
            #[serde(flatten)]
            args: Args,
        }

        impl From<(i64, &str)> for $name {
            fn from((number, does): (i64, &str)) -> Self {
                Self { args: Args { number, does: does.to_owned() } }
            }
        }
    };
}

kind!(AsyncPg, "batch", connection = AsyncPgConnection);
kind!(AsyncPgInTime, "in_time", connection = AsyncPgConnection, timeout = "1h");
kind!(Pg, "batch", blocking = true, connection = PgConnection);
kind!(PgInTime, "in_time", blocking = true, connection = PgConnection, timeout = "1h");
kind!(Sqlite, "batch", blocking = true, connection = SqliteConnection);
kind!(SqliteInTime, "in_time", blocking = true, connection = SqliteConnection, timeout = "1h");

/// The SQL of the effect of a job.
fn effect(ctx: &JobContext) -> String {
    format!("insert into effect (name, job) values ('written', {})", ctx.id())
}

/// What the handler does after the writes.
fn end(jobs: &[Args], probe: &Probe, ctx: &BatchContext) -> BatchHandled {
    let numbers: Vec<String> = jobs.iter().map(|job| job.number.to_string()).collect();
    probe.say(&ctx.jobs()[0], numbers.join(" "));
    match jobs[0].does.as_str() {
        "panic" => panic!("no index"),
        "fail" => return Err(JobError::msg("no server").retry_in(Duration::from_secs(7200))),
        "too few" => return Ok(vec![Ok(Outcome::Complete)]),
        _ => {}
    }
    let result = |job: &Args| match job.does.as_str() {
        "snooze" => Ok(Outcome::Snooze(Duration::from_secs(60))),
        "refuse" => Err(JobError::msg(format!("{} is refused", job.number))),
        "fatal" => Err(JobError::msg("never").fatal()),
        _ => Ok(Outcome::Complete),
    };
    Ok(jobs.iter().map(result).collect())
}

async fn on_async_pg(jobs: Vec<Args>, conn: &mut AsyncPgConnection, ctx: BatchContext) -> BatchHandled {
    let probe = ctx.state::<Probe>().expect("the tests give one").clone();
    for job in ctx.jobs() {
        conn.batch_execute(&effect(job)).await.map_err(JobError::new)?;
    }
    let answer = end(&jobs, &probe, &ctx)?;
    match jobs[0].does.as_str() {
        "wait" => probe.pass().await,
        "complete in" => ctx.jobs()[0].complete_in(conn).await.map_err(JobError::new)?,
        "delete" => {
            conn.batch_execute(&format!("delete from jobs.running where id = {}", ctx.jobs()[0].id()))
                .await
                .map_err(JobError::new)?;
        }
        _ => {}
    }
    Ok(answer)
}

fn on_a_thread<C: SimpleConnection>(
    jobs: Vec<Args>,
    conn: &mut C,
    ctx: BatchContext,
    running: &str,
    complete_in: fn(&JobContext, &mut C) -> Result<(), JobError>,
) -> BatchHandled {
    let probe: &Probe = ctx.state().expect("the tests give one");
    for job in ctx.jobs() {
        conn.batch_execute(&effect(job)).map_err(JobError::new)?;
    }
    let answer = end(&jobs, probe, &ctx)?;
    match jobs[0].does.as_str() {
        "wait" => probe.pass_blocking(),
        "complete in" => complete_in(&ctx.jobs()[0], conn)?,
        "delete" => {
            conn.batch_execute(&format!("delete from {running} where id = {}", ctx.jobs()[0].id()))
                .map_err(JobError::new)?;
        }
        _ => {}
    }
    Ok(answer)
}

macro_rules! handle_async {
    ($($name:ident),+) => {$(
        impl HandleBatchIn<AsyncPgConnection> for $name {
            async fn handle(jobs: Vec<Self>, conn: &mut AsyncPgConnection, ctx: BatchContext) -> BatchHandled {
                on_async_pg(jobs.into_iter().map(|job| job.args).collect(), conn, ctx).await
            }
        }
    )+};
}

macro_rules! handle {
    ($connection:ty, $running:literal, $($name:ident),+) => {$(
        impl HandleBlockingBatchIn<$connection> for $name {
            fn handle(jobs: Vec<Self>, conn: &mut $connection, ctx: BatchContext) -> BatchHandled {
                let jobs = jobs.into_iter().map(|job| job.args).collect();
                on_a_thread(jobs, conn, ctx, $running, |ctx, conn| ctx.complete_in(conn).map_err(JobError::new))
            }
        }
    )+};
}

handle_async!(AsyncPg, AsyncPgInTime);
handle!(PgConnection, "jobs.running", Pg, PgInTime);
handle!(SqliteConnection, "jobs_job", Sqlite, SqliteInTime);

/// The same handler on one type of connection, without and with a time limit.
struct Kind {
    registry: Registry,
    job: fn(i64, &str) -> JobBuilder,
    in_time: fn(i64, &str) -> JobBuilder,
}

macro_rules! kinds {
    ($($function:ident: $job:ident, $in_time:ident);+) => {$(
        fn $function() -> Kind {
            Kind {
                registry: registry![$job, $in_time],
                job: |number, does| $job::from((number, does)).into(),
                in_time: |number, does| $in_time::from((number, does)).into(),
            }
        }
    )+};
}

kinds!(async_pg_kind: AsyncPg, AsyncPgInTime; pg_kind: Pg, PgInTime; sqlite_kind: Sqlite, SqliteInTime);

fn start(db: &Db, kind: Kind) -> (Running, Events) {
    start_again(db, &kind)
}

fn start_again(db: &Db, kind: &Kind) -> (Running, Events) {
    let (running, events, _) = start_watched(db, kind);
    (running, events)
}

/// Returns also what is notified when a transaction is given up.
fn start_watched(db: &Db, kind: &Kind) -> (Running, Events, Arc<Notify>) {
    let (probe, events) = Probe::new();
    let storage = Lossy::losing(db, 0, 0);
    let aborted = storage.transacted.clone();
    let worker =
        Worker::builder(Arc::new(storage)).registry(kind.registry.clone()).poll_interval(Duration::from_millis(50));
    (Running::start(worker.state(probe).slots(1)), events, aborted)
}

async fn enqueue(db: &Db, job: fn(i64, &str) -> JobBuilder, does: &[&str]) -> Vec<JobId> {
    db.conn().await.enqueue_all((1..).zip(does).map(|(number, does)| job(number, does))).await
}

async fn the_writes_and_all_ends_are_committed_together(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.job, &["", "", ""]).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("1 2 3").await;
    for id in ids {
        assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    }
    assert_eq!(worker.stop().await.completed, 3);
    assert_eq!(db.effects("written").await, 3);
}

/// The writes of a job that the handler reports as failed are committed.
async fn each_job_has_an_end_of_its_own(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.job, &["", "snooze", "refuse", "fatal"]).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("1 2 3 4").await;
    let states = [JobState::Completed, JobState::Scheduled, JobState::Retrying, JobState::Discarded];
    let mut attempts = Vec::new();
    for (id, state) in ids.iter().zip(states) {
        attempts.push(db.await_state(*id, state).await.attempt);
    }
    assert_eq!(attempts, [1, 0, 1, 1], "a snooze consumes no attempt");
    assert_eq!(db.failures(ids[2]).await[0].message, "3 is refused");
    assert_eq!(db.effects("written").await, 4);
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.snoozed, stats.retried, stats.discarded), (1, 1, 1, 1));
}

async fn an_error_of_the_whole_rolls_everything_back(db: Db, kind: Kind) {
    for (does, failed, message) in [
        ("fail", FailureKind::Error, "no server"),
        ("panic", FailureKind::Panic, "no index"),
        ("too few", FailureKind::Error, "returned 1 results for 2 jobs"),
        ("complete in", FailureKind::Error, "its own transaction completes the jobs"),
        ("delete", FailureKind::Error, "changed the row of one of its running jobs"),
    ] {
        let ids = enqueue(&db, kind.job, &[does, ""]).await;
        let (worker, mut events) = start_again(&db, &kind);
        events.expect("1 2").await;
        for id in ids {
            let job = db.await_state(id, JobState::Retrying).await;
            assert_eq!(job.attempt, 1);
            let later = job.run_at - chrono::Utc::now() > chrono::TimeDelta::minutes(90);
            assert_eq!(later, does == "fail", "each job has the time of `retry_in`");
            let failure = db.failures(id).await.remove(0);
            assert_eq!(failure.kind, failed, "{does}");
            assert!(failure.message.contains(message), "{does}: {}", failure.message);
        }
        assert_eq!(worker.stop().await.retried, 2);
        assert_eq!(db.effects("written").await, 0, "{does}: rolled back");
    }
}

/// Arguments that do not decode.
const BROKEN: &str = r#"{"no": "number"}"#;

async fn arguments_that_do_not_decode_fail_alone(db: Db, kind: Kind) {
    let job = kind.job;
    for (does, state) in [("", JobState::Completed), ("fail", JobState::Retrying)] {
        let [first, last] = [job(1, does), job(3, "")].map(|job| job.into_new_job().unwrap());
        let ids = db.conn().await.enqueue_all([first, NewJob::raw("batch", BROKEN), last]).await;
        let (worker, mut events) = start_again(&db, &kind);
        events.expect("1 3").await;
        for (id, state) in ids.iter().zip([state, JobState::Retrying, state]) {
            db.await_state(*id, state).await;
        }
        assert_eq!(db.failures(ids[1]).await[0].kind, FailureKind::Undecodable);
        assert_eq!(db.failures(ids[0]).await.len(), usize::from(does == "fail"));
        worker.stop().await;
    }
    assert_eq!(db.effects("written").await, 2, "of the first batch");
    let alone = db.conn().await.enqueue(NewJob::raw("batch", BROKEN)).await;
    let (worker, mut events) = start_again(&db, &kind);
    db.await_state(alone, JobState::Retrying).await;
    worker.stop().await;
    assert!(events.rest().is_empty(), "the handler was not called");
}

/// The first run is rolled back, and the second one has the other two jobs.
async fn without_a_lost_lease_the_batch_runs_again(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.job, &["wait", "", ""]).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("1 2 3").await;
    assert_eq!(db.database().operator.cancel(ids[1]).await.unwrap(), Operated::Done);
    events.open(2);
    events.expect("1 3").await;
    for id in [ids[0], ids[2]] {
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!(job.attempt, 1);
        assert!(db.failures(id).await.is_empty());
    }
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.leases_lost), (2, 1));
    assert_eq!(db.record(ids[1]).await.state, JobState::Cancelled);
    assert_eq!(db.effects("written").await, 2, "of the second run");
}

/// Cancels the second job after it was claimed.
struct Cancels(Arc<dyn Operator>, JobId);

impl Layer for Cancels {
    async fn before(&self, ctx: &JobContext, _: &mut States) -> Result<ControlFlow<Outcome>, JobError> {
        if ctx.id() == self.1 {
            let cancelled = self.0.cancel(self.1).await.map_err(JobError::new)?;
            assert_eq!(cancelled, Operated::Done);
        }
        Ok(ControlFlow::Continue(()))
    }
}

async fn a_lease_that_is_lost_before_the_transaction_is_left_out(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.job, &["", "", ""]).await;
    let (probe, mut events) = Probe::new();
    let cancels = Cancels(db.database().operator.clone(), ids[1]);
    let worker = Running::start(db.worker(kind.registry).state(probe).slots(1).layer(cancels));
    for id in [ids[0], ids[2]] {
        assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    }
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.leases_lost), (2, 1));
    assert_eq!(db.effects("written").await, 2);
    assert_eq!(events.rest().last().unwrap().text, "1 3");
}

async fn no_job_is_left_if_all_leases_are_lost(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.job, &["wait", ""]).await;
    let (worker, mut events) = start(&db, kind);
    events.expect("1 2").await;
    for id in &ids {
        assert_eq!(db.database().operator.cancel(*id).await.unwrap(), Operated::Done);
    }
    events.open(1);
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.leases_lost), (0, 2));
    assert!(events.rest().is_empty());
    assert_eq!(db.effects("written").await, 0);
}

async fn a_timeout_rolls_back_and_is_one_of_each_job(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.in_time, &["wait", ""]).await;
    let (worker, mut events, aborted) = start_watched(&db, &kind);
    events.expect("1 2").await;
    worker.handle().end_time_limits();
    within(LIMIT, "the end of the transaction", aborted.notified()).await;
    if !db.is_postgres() {
        // The handler holds SQLite's only write lock, and a thread cannot be stopped.
        events.open(1);
    }
    for id in &ids {
        db.await_state(*id, JobState::Retrying).await;
        assert_eq!(db.failures(*id).await[0].kind, FailureKind::Timeout);
    }
    events.open(1);
    assert_eq!(worker.stop().await.retried, 2);
    assert_eq!(db.effects("written").await, 0, "rolled back");
}

async fn a_shutdown_releases_all_jobs_and_rolls_back(db: Db, kind: Kind) {
    let ids = enqueue(&db, kind.job, &["wait", ""]).await;
    let (worker, mut events, aborted) = start_watched(&db, &kind);
    events.expect("1 2").await;
    worker.handle().shutdown_now();
    within(LIMIT, "the end of the transaction", aborted.notified()).await;
    events.open(1);
    assert_eq!(worker.ended().await.released, 2);
    for id in ids {
        let job = db.record(id).await;
        assert_eq!((job.state, job.attempt), (JobState::Available, 0));
    }
    assert_eq!(db.effects("written").await, 0, "rolled back");
}

/// Raises a serialization failure at the first two of these events.
async fn raise_conflict(db: &Db, trigger: &str) {
    db.execute(&format!(
        "create sequence conflicts_raised;
         create function raise_conflict() returns trigger language plpgsql as $$ begin
             if nextval('conflicts_raised') <= 2 then raise exception 'raised by the test' using errcode = '40001'; end if;
             return null;
         end $$;
         {trigger}"
    ))
    .await;
}

async fn runs_three_times(db: Db, kind: Kind, trigger: &str, told: usize) {
    let ids = enqueue(&db, kind.job, &["", "", ""]).await;
    raise_conflict(&db, trigger).await;
    let (worker, mut events) = start(&db, kind);
    for id in ids {
        assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
        assert!(db.failures(id).await.is_empty());
    }
    worker.stop().await;
    assert_eq!(
        (db.effects("written").await, events.rest().len()),
        (3, told),
        "a run that fails at a write says nothing"
    );
}

async fn a_conflict_in_the_handler_costs_no_attempt(db: Db, kind: Kind) {
    let trigger =
        "create trigger raise_conflict after insert on effect for each statement execute function raise_conflict()";
    runs_three_times(db, kind, trigger, 1).await;
}

async fn a_conflict_in_our_finish_costs_no_attempt(db: Db, kind: Kind) {
    let trigger = "create trigger raise_conflict before delete on jobs.running for each statement execute function raise_conflict()";
    runs_three_times(db, kind, trigger, 3).await;
}

async fn a_conflict_at_the_commit_costs_no_attempt(db: Db, kind: Kind) {
    let trigger = "create constraint trigger raise_conflict after insert on jobs.finished deferrable initially deferred
        for each row execute function raise_conflict()";
    runs_three_times(db, kind, trigger, 3).await;
}

/// Tells the test how each attempt ended.
struct Tells(Probe);

impl Layer for Tells {
    async fn after(&self, ctx: &JobContext, outcome: &Outcome) {
        self.0.say(ctx, format!("{outcome:?}"));
    }

    async fn error(&self, ctx: &JobContext, error: &JobError) {
        self.0.say(ctx, format!("{:?} {error} {}", error.kind(), error.is_fatal()));
    }
}

async fn layers_see_the_end_of_each_job(db: Db, kind: Kind) {
    enqueue(&db, kind.job, &["", "refuse", "fatal"]).await;
    let (probe, mut events) = Probe::new();
    let worker = db.worker(kind.registry).state(probe.clone()).slots(1).layer(Tells(probe));
    let worker = Running::start(worker);
    for event in ["1 2 3", "Complete", "Error 2 is refused false", "Error never true"] {
        events.expect(event).await;
    }
    worker.stop().await;
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

macro_rules! on_postgres_connection {
    ($module:ident: $kind:ident) => {
        on!($module: postgres, $kind {
            the_writes_and_all_ends_are_committed_together,
            each_job_has_an_end_of_its_own,
            an_error_of_the_whole_rolls_everything_back,
            arguments_that_do_not_decode_fail_alone,
            without_a_lost_lease_the_batch_runs_again,
            a_lease_that_is_lost_before_the_transaction_is_left_out,
            no_job_is_left_if_all_leases_are_lost,
            a_timeout_rolls_back_and_is_one_of_each_job,
            a_shutdown_releases_all_jobs_and_rolls_back,
            a_conflict_in_the_handler_costs_no_attempt,
            a_conflict_in_our_finish_costs_no_attempt,
            a_conflict_at_the_commit_costs_no_attempt,
            layers_see_the_end_of_each_job,
        });
    };
}

on_postgres_connection!(on_async_pg_connection: async_pg_kind);
on_postgres_connection!(on_pg_connection: pg_kind);

// A lease cannot be lost during a transaction of SQLite, because the transaction holds the only write lock.
on!(on_sqlite_connection: sqlite, sqlite_kind {
    the_writes_and_all_ends_are_committed_together,
    each_job_has_an_end_of_its_own,
    an_error_of_the_whole_rolls_everything_back,
    arguments_that_do_not_decode_fail_alone,
    a_lease_that_is_lost_before_the_transaction_is_left_out,
    a_timeout_rolls_back_and_is_one_of_each_job,
    a_shutdown_releases_all_jobs_and_rolls_back,
    layers_see_the_end_of_each_job,
});

/// The transaction is open, and all jobs have written.
async fn a_worker_that_is_killed_in_the_transaction_leaves_nothing(db: Db) {
    let jobs = (0..5).map(|_| NewJob::raw("written", "{}"));
    let ids = db.conn().await.enqueue_all(jobs).await;
    let start = || Process::worker(env!("CARGO_BIN_EXE_batch-worker"), db.url(), [""; 0]);
    let mut victim = start();
    victim.await_line("5 jobs have written");
    victim.kill();
    db.age_worker(victim.id()).await;
    assert_eq!(db.effects("written").await, 0);
    for id in &ids {
        assert_eq!(db.record(*id).await.state, JobState::Running);
    }
    let _heir = start();
    for id in ids {
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!((job.attempt, job.crashes), (2, 1));
    }
    assert_eq!(db.effects("written").await, 5);
    assert_eq!(db.number("select count(distinct job) as number from effect").await, 5);
}

support::on_each_database! {
    a_worker_that_is_killed_in_the_transaction_leaves_nothing,
}
