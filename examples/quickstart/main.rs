//! The main example, on SQLite, without a server and without settings: `cargo run --example quickstart`
//!
//! It enqueues jobs of several kinds in one transaction, runs a worker until no job is left, and prints the results.

// `table!` generates public items, and an example may print to the terminal.
#![allow(missing_docs, clippy::print_stdout)]

mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use diesel::prelude::*;
use diesel_jobs::prelude::*;
use diesel_jobs::{Database, Worker};

/// A state that handlers share. Here it is a mail server that refuses every fourth delivery.
#[derive(Clone, Default)]
struct Mailer {
    deliveries: Arc<AtomicU32>,
}

impl Mailer {
    async fn deliver(&self, user_id: i64, _template: &str) -> Result<(), MailError> {
        tokio::time::sleep(Duration::from_millis(10 + 10 * user_id.unsigned_abs() % 40)).await;
        match self.deliveries.fetch_add(1, Ordering::Relaxed) % 4 {
            3 => Err(MailError { user_id }),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the mailbox of user {user_id} is busy")]
struct MailError {
    user_id: i64,
}

/// Sends the welcome mail. A failed delivery is retried.
#[job(queue = "mail", max_attempts = 10, timeout = "30s", backoff = "fixed(50ms)")]
async fn send_welcome(user_id: i64, template: &str, State(mailer): State<Mailer>) -> Result<(), MailError> {
    mailer.deliver(user_id, template).await
}

/// Moves money. The handler takes the connection, so the job is transactional: the two updates and the job's completion
/// are committed together or not at all.
#[job(queue = "billing", priority = 10)]
fn transfer(conn: &mut SqliteConnection, from: i64, to: i64, cents: i64) -> QueryResult<()> {
    for (account, amount) in [(from, -cents), (to, cents)] {
        let booked = accounts::cents.eq(accounts::cents + amount);
        diesel::update(accounts::table.find(account)).set(booked).execute(conn)?;
    }
    Ok(())
}

/// Always fails. After two attempts it is discarded, and both errors are stored.
#[job(max_attempts = 2, backoff = "fixed(50ms)")]
async fn import_feed(url: String) -> Result<(), JobError> {
    Err(JobError::msg(format!("{url} is no feed")))
}

/// Runs every second.
#[job(cron = "* * * * * *", timezone = "Europe/Paris")]
async fn take_pulse(ctx: &JobContext) {
    println!("{} ran as job {}", ctx.kind(), ctx.id());
}

diesel::table! {
    accounts (id) {
        id -> BigInt,
        cents -> BigInt,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite://{}", directory.path().join("quickstart.db").display());

    // The application: its own connection, its own tables, its own transaction.
    let mut conn = SqliteConnection::establish(&url)?;
    diesel_jobs::migrate(&mut conn)?;
    diesel::sql_query("create table accounts (id bigint primary key, cents bigint not null)").execute(&mut conn)?;
    diesel::sql_query("insert into accounts values (1, 100000), (2, 0)").execute(&mut conn)?;

    conn.immediate_transaction(|conn| {
        for user_id in 1..=20 {
            SendWelcome { user_id, template: "v2".into() }.enqueue(conn)?;
        }
        SendWelcome::new(21, "reminder").delay(Duration::from_millis(1500)).priority(-5).enqueue(conn)?;
        diesel_jobs::enqueue_all(conn, (1..=10).map(|n| Transfer { from: 1, to: 2, cents: n * 100 }))?;
        ImportFeed::new("https://example.org/nothing").enqueue(conn)?;
        QueryResult::Ok(())
    })?;
    let rolled_back = conn.transaction(|conn| {
        Transfer { from: 1, to: 2, cents: 99_999 }.enqueue(conn)?;
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert!(rolled_back.is_err(), "this job never existed");

    // The worker. In an application it is a binary of one line, `diesel_jobs::worker!(my_app);`, which runs until it is
    // stopped.
    let database = Database::open(&url, 1).await?;
    let worker = Worker::builder(database.storage.clone()).state(Mailer::default()).build()?;
    let stats = worker.run_until_empty().await?;

    report::print(&database, stats).await?;
    let balances: Vec<(i64, i64)> = accounts::table.order(accounts::id).load(&mut conn)?;
    println!("balances in cents: {balances:?}");
    Ok(())
}
