//! The history of the work: it adds up, and it is no part of a finish.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel_async::AsyncPgConnection;
use diesel_jobs::operator::history::WorkFilter;
use diesel_jobs::{JobContext, JobError, JobState, Outcome, job};
use support::{Db, LIMIT, Process, Running, registry, until};
use worker_app::Idle;

#[job]
async fn fine() {}

#[job(max_attempts = 2, backoff = "fixed(10ms)")]
async fn flaky(ctx: &JobContext) -> Result<(), JobError> {
    if ctx.attempt() == 1 { Err(JobError::msg("at first")) } else { Ok(()) }
}

#[job(max_attempts = 1)]
fn doomed() -> Result<(), JobError> {
    Err(JobError::msg("never"))
}

#[job]
async fn dropped(ctx: &JobContext) -> Result<Outcome, JobError> {
    match ctx.id().0 % 2 {
        0 => Ok(Outcome::Cancel("not needed".to_owned())),
        _ => Ok(Outcome::Complete),
    }
}

#[job(retain = "none")]
async fn forgotten() {}

#[job]
async fn in_pg(conn: &mut AsyncPgConnection) {
    let _ = conn;
}

#[job]
fn in_sqlite(conn: &mut SqliteConnection) {
    let _ = conn;
}

/// The name of the table, and a sum over its rows.
fn table(db: &Db) -> &'static str {
    if db.is_postgres() { "jobs.history" } else { "jobs_history" }
}

async fn sum(db: &Db, column: &str) -> u64 {
    let sum = format!("select cast(coalesce(sum({column}), 0) as bigint) as number from {}", table(db));
    u64::try_from(db.number(&sum).await).unwrap()
}

async fn counts_of_a_run_add_up_after_the_shutdown(db: Db) {
    let mut conn = db.conn().await;
    conn.enqueue_all((0..700).map(|_| Fine {})).await;
    conn.enqueue_all((0..40).map(|_| Flaky {})).await;
    conn.enqueue_all((0..30).map(|_| Doomed {})).await;
    conn.enqueue_all((0..20).map(|_| Dropped {})).await;
    conn.enqueue_all((0..50).map(|_| Forgotten {})).await;
    let stats = if db.is_postgres() {
        conn.enqueue_all((0..60).map(|_| InPg {})).await;
        db.work(registry![Fine, Flaky, Doomed, Dropped, Forgotten, InPg]).await
    } else {
        conn.enqueue_all((0..60).map(|_| InSqlite {})).await;
        db.work(registry![Fine, Flaky, Doomed, Dropped, Forgotten, InSqlite]).await
    };
    assert_eq!(sum(&db, "completed").await, 700 + 40 + 10 + 50 + 60);
    assert_eq!((sum(&db, "retried").await, sum(&db, "discarded").await, sum(&db, "cancelled").await), (40, 30, 10));
    assert_eq!(sum(&db, "completed").await, stats.completed);
    // Each attempt has a wait and a run.
    let (hour, minute, all) = (Duration::from_secs(3600), Duration::from_secs(60), WorkFilter::default());
    assert_eq!(db.database().operator.series(hour, minute, &all).await.unwrap().len(), 60);
    let bins = if db.is_postgres() {
        "select sum(n)::bigint as number from jobs.history, unnest(waits) n"
    } else {
        "select sum(value) as number from jobs_history, json_each(waits)"
    };
    assert_eq!(db.number(bins).await, 700 + 80 + 30 + 20 + 50 + 60);
}

async fn jobs_end_although_no_statement_reaches_the_history(db: Db) {
    let (history, gone) = (table(&db), if db.is_postgres() { "gone" } else { "jobs_gone" });
    db.execute(&format!("alter table {history} rename to {gone}")).await;
    let mut conn = db.conn().await;
    let ids = conn.enqueue_all((0..200).map(|_| Fine {})).await;
    let worker = if db.is_postgres() {
        conn.enqueue_all((0..20).map(|_| InPg {})).await;
        Running::start(db.worker(registry![Fine, InPg]))
    } else {
        conn.enqueue_all((0..20).map(|_| InSqlite {})).await;
        Running::start(db.worker(registry![Fine, InSqlite]))
    };
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    until("all jobs", async || (worker.handle().stats().completed == 220).then_some(())).await;
    // The numbers are kept until they can be written.
    let renamed = if db.is_postgres() { "jobs.gone" } else { "jobs_gone" };
    let name = if db.is_postgres() { "history" } else { "jobs_history" };
    db.execute(&format!("alter table {renamed} rename to {name}")).await;
    worker.stop().await;
    assert_eq!(sum(&db, "completed").await, 220);
}

async fn a_killed_worker_loses_at_most_its_current_minute(db: Db) {
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--poll-interval", "100ms"]);
    worker.await_line("worker started");
    let run = async |jobs: usize| {
        for id in db.conn().await.enqueue_all((0..jobs).map(|_| Idle {})).await {
            db.await_state(id, JobState::Completed).await;
        }
    };
    run(30).await;
    // The minute ends, and is written.
    until("the minute to be written", async || (sum(&db, "completed").await == 30).then_some(())).await;
    run(5).await;
    worker.kill();
    let written = sum(&db, "completed").await;
    assert!((30..=35).contains(&written), "{written}");
    // The next worker writes its own work, and that once.
    let heir = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--poll-interval", "100ms"]);
    run(7).await;
    heir.signal("TERM");
    assert_eq!(heir.ended(LIMIT).code, 0);
    assert_eq!(sum(&db, "completed").await, written + 7);
}

support::on_each_database! {
    counts_of_a_run_add_up_after_the_shutdown,
    jobs_end_although_no_statement_reaches_the_history,
}

mod killed {
    use super::a_killed_worker_loses_at_most_its_current_minute;

    // SQLite's worker has the same service, and the test takes a minute.
    support::on_postgres! { a_killed_worker_loses_at_most_its_current_minute }
}
