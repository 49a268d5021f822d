//! The jobs of these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_jobs::handler::Discarded;
use diesel_jobs::prelude::*;

/// Counts calls.
#[derive(Clone, Default)]
pub(crate) struct Calls(pub(crate) Arc<AtomicU16>);

impl Calls {
    pub(crate) fn number(&self) -> u16 {
        self.0.load(Ordering::SeqCst)
    }
}

#[job]
pub(crate) async fn charge(order_id: i64, State(calls): State<Calls>) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(order_id > 0);
    calls.0.fetch_add(1, Ordering::SeqCst);
}

#[job(queue = "mail", priority = 5, max_attempts = 3)]
pub(crate) fn send_welcome(_user_id: i64, template: String, _tags: Vec<String>) -> Result<(), JobError> {
    if template == "broken" { Err(JobError::msg("no such template")) } else { Ok(()) }
}

/// Snoozes once. So its second run is a first attempt, too.
#[job(expires = "10m")]
pub(crate) fn expire(ctx: &JobContext, State(times): State<Times>) -> Outcome {
    let mut times = times.0.lock().unwrap();
    times.push(ctx.now());
    if times.len() == 1 { Outcome::Snooze(Duration::from_secs(3600)) } else { Outcome::Complete }
}

#[job(max_attempts = 4, backoff = "fixed(1h)")]
pub(crate) fn third_time_lucky(ctx: &JobContext, State(times): State<Times>) -> Result<(), JobError> {
    times.0.lock().unwrap().push(ctx.now());
    if ctx.attempt() < 3 { Err(JobError::msg(format!("attempt {} fails", ctx.attempt()))) } else { Ok(()) }
}

#[derive(Clone, Default)]
pub(crate) struct Times(pub(crate) Arc<std::sync::Mutex<Vec<DateTime<Utc>>>>);

/// The output of [`build_report`].
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) pages: usize,
}

#[job(max_attempts = 2)]
pub(crate) async fn build_report(pages: usize, ctx: &JobContext) -> Result<Option<Report>, JobError> {
    match (pages, ctx.attempt()) {
        (0, _) => Ok(None),
        (1, 1) => Err(JobError::msg("out of paper")),
        (pages, _) => Ok(Some(Report { title: "x".repeat(pages * 1000), pages })),
    }
}

#[job]
pub(crate) fn snooze() -> Outcome {
    Outcome::Snooze(Duration::from_secs(60))
}

#[job]
pub(crate) fn complete_twice(
    conn: &mut SqliteConnection,
    ctx: &JobContext,
) -> Result<(), diesel_jobs::handler::CompleteError> {
    ctx.complete_in(conn)
}

fn broken_backoff(_: u16) -> Duration {
    panic!("no backoff")
}

#[job(backoff = broken_backoff)]
pub(crate) fn fail_with_a_broken_backoff() -> Result<(), JobError> {
    Err(JobError::msg("fails"))
}

#[job(max_attempts = 1)]
pub(crate) fn panic_at_once() {
    panic!("at once");
}

#[job]
pub(crate) fn needs_state(State(_): State<Times>) {}

#[job(cron = "0 0 2 * * *")]
pub(crate) fn tell_times(ctx: &JobContext, State(times): State<Times>) {
    times.0.lock().unwrap().extend([ctx.run_at(), ctx.now()]);
}

type Ran = Result<(), Box<dyn std::error::Error + Send + Sync>>;

pub(crate) const NOTE: &str = "insert into note (text) values ('written')";

/// Writes a note and enqueues a follower. Fails at its first attempt, after both.
#[job(max_attempts = 2)]
pub(crate) async fn write_async(conn: &mut AsyncPgConnection, ctx: &JobContext) -> Ran {
    diesel_async::RunQueryDsl::execute(diesel::sql_query(NOTE), conn).await?;
    SendWelcome::new(1, "after", vec![]).enqueue(conn).await?;
    if ctx.attempt() == 1 { Err("not yet".into()) } else { Ok(()) }
}

#[job(max_attempts = 2)]
pub(crate) fn write_pg(conn: &mut PgConnection, ctx: &JobContext) -> Ran {
    diesel::sql_query(NOTE).execute(conn)?;
    SendWelcome::new(1, "after", vec![]).enqueue(conn)?;
    if ctx.attempt() == 1 { Err("not yet".into()) } else { Ok(()) }
}

#[job(max_attempts = 2)]
pub(crate) fn write_sqlite(conn: &mut SqliteConnection, ctx: &JobContext) -> Ran {
    diesel::sql_query(NOTE).execute(conn)?;
    SendWelcome::new(1, "after", vec![]).enqueue(conn)?;
    if ctx.attempt() == 1 { Err("not yet".into()) } else { Ok(()) }
}

#[job(max_attempts = 1)]
pub(crate) fn log_in(user: String, #[arg(secret)] password: String) -> Result<(), anyhow::Error> {
    Err(anyhow::anyhow!("{user} is refused with {password:?} (cause: {password})"))
}

#[job]
pub(crate) fn bring_back(conn: &mut SqliteConnection) -> QueryResult<()> {
    let ended = "update jobs_job set state = 'available', max_attempts = 9 where kind = 'panic_at_once'";
    diesel::sql_query(ended).execute(conn).map(drop)
}

/// Writes, and panics inside a transaction of its own.
#[job(max_attempts = 1)]
pub(crate) fn panic_inside_sqlite(conn: &mut SqliteConnection) -> QueryResult<()> {
    diesel::sql_query("insert into note values ('before')").execute(conn)?;
    conn.transaction(|_| panic!("inside"))
}

/// The same.
#[job(max_attempts = 1)]
pub(crate) fn panic_inside_pg(conn: &mut PgConnection) -> QueryResult<()> {
    diesel::sql_query("insert into note values ('before')").execute(conn)?;
    conn.transaction(|_| panic!("inside"))
}

/// The same.
#[job(max_attempts = 1)]
pub(crate) async fn panic_inside_async(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    use diesel_async::AsyncConnection as _;
    diesel_async::RunQueryDsl::execute(diesel::sql_query("insert into note values ('before')"), conn).await?;
    conn.transaction(async |_| panic!("inside")).await
}

#[job(queue = "alerts", concurrency(limit = 1), expires = "1h")]
pub(crate) fn alert_ops(discarded: Discarded) {
    let _ = discarded;
}

#[job(max_attempts = 2, on_discarded = AlertOps)]
pub(crate) fn deliver(#[arg(secret)] address: String, ctx: &JobContext) -> Result<(), JobError> {
    ctx.progress(u64::from(ctx.attempt()), 2, format!("looking for {address}"));
    Err(JobError::msg(format!("there is no {address}")))
}
