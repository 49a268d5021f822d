//! Handlers that wait for the test's transaction, and handlers that never end.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_jobs::prelude::*;
use diesel_jobs::testing::{drain, perform};

use crate::database::{self, Database};

/// Where the handlers open a connection of their own.
#[derive(Clone)]
struct Url(String);

const WRITE: &str = "update note set text = 'theirs'";

#[job]
async fn write_elsewhere_async(State(url): State<Url>) -> Result<(), anyhow::Error> {
    let mut conn = AsyncPgConnection::establish(&url.0).await?;
    SimpleAsyncConnection::batch_execute(&mut conn, WRITE).await?;
    Ok(())
}

#[job]
fn write_elsewhere(State(url): State<Url>) -> Result<(), anyhow::Error> {
    PgConnection::establish(&url.0)?.batch_execute(WRITE)?;
    Ok(())
}

#[job]
async fn write_here_and_elsewhere(conn: &mut AsyncPgConnection, State(url): State<Url>) -> Result<(), anyhow::Error> {
    SimpleAsyncConnection::batch_execute(conn, "insert into note values ('here')").await?;
    let mut other = AsyncPgConnection::establish(&url.0).await?;
    SimpleAsyncConnection::batch_execute(&mut other, WRITE).await?;
    Ok(())
}

#[job(timeout = "300ms")]
async fn never_end() {
    std::future::pending().await
}

#[job]
fn sleep_long() {
    std::thread::sleep(2 * MINUTES);
}

/// Waits for the end of standard input.
#[job]
fn wait_with_the_connection(_conn: &mut SqliteConnection) {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

const LIMIT: Duration = Duration::from_millis(500);
/// Only guards against hanging.
const MINUTES: Duration = Duration::from_secs(300);

/// A database with a row that the test's transaction changes next.
fn database_with_a_row() -> Database {
    let database = Database::create();
    let mut conn = PgConnection::establish(&database.url()).unwrap();
    conn.batch_execute("insert into note values ('old')").unwrap();
    database
}

const WAITS: &str =
    "with the statement `update note set text = 'theirs'` waits for a lock that the test's transaction holds";

fn names_the_session_that_waits((message, limit): (String, Duration), kind: &str) {
    for part in [
        &format!("of kind `{kind}` has not ended after {limit:?}. Session "),
        WAITS,
        "`conn: &mut ..`",
        "`Worker::run_until_empty`",
        "`.time_limit(..)`",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
}

#[test]
fn a_handler_that_waits_for_the_tests_transaction_is_given_up_on_a_sync_connection() {
    let database = database_with_a_row();
    let url = Url(database.url());
    let mut conn = database.pg();
    conn.batch_execute("update note set text = 'ours'").unwrap();
    let stuck = given_up!(WAITS, limit => {
        WriteElsewhereAsync.enqueue(&mut conn).unwrap();
        drain(&mut conn).state(url.clone()).time_limit(limit).run().unwrap_err().to_string()
    });
    names_the_session_that_waits(stuck, "write_elsewhere_async");
    let stuck = given_up!(WAITS, limit => {
        perform(WriteElsewhere).state(url.clone()).time_limit(limit).on(&mut conn).unwrap_err().to_string()
    });
    names_the_session_that_waits(stuck, "write_elsewhere");
    // The next handler gets another thread.
    perform(crate::jobs::Snooze).on(&mut conn).unwrap();
}

#[tokio::test]
async fn a_handler_that_waits_for_the_tests_transaction_is_given_up_on_an_async_connection() {
    let database = database_with_a_row();
    let url = Url(database.url());
    let mut conn = database.pg_async().await;
    SimpleAsyncConnection::batch_execute(&mut conn, "update note set text = 'ours'").await.unwrap();
    let stuck = given_up!(WAITS, limit => {
        WriteElsewhere.enqueue(&mut conn).await.unwrap();
        drain(&mut conn).state(url.clone()).time_limit(limit).run().await.unwrap_err().to_string()
    });
    names_the_session_that_waits(stuck, "write_elsewhere");
    let stuck = given_up!(WAITS, limit => {
        perform(WriteElsewhereAsync).state(url.clone()).time_limit(limit).on(&mut conn).await.unwrap_err().to_string()
    });
    names_the_session_that_waits(stuck, "write_elsewhere_async");
    let stuck = given_up!(WAITS, limit => {
        perform(WriteHereAndElsewhere).state(url.clone()).time_limit(limit).on(&mut conn).await.unwrap_err().to_string()
    });
    names_the_session_that_waits(stuck, "write_here_and_elsewhere");
    let here = diesel::dsl::sql::<diesel::sql_types::BigInt>("(select count(*) from note where text = 'here')");
    let here: i64 = diesel_async::RunQueryDsl::get_result(diesel::select(here), &mut conn).await.unwrap();
    assert_eq!(here, 0, "the savepoint of the handler is rolled back");
}

#[test]
fn the_timeout_of_a_kind_is_its_limit() {
    let database = Database::create();
    let stuck = perform(NeverEnd).on(&mut database.pg()).unwrap_err().to_string();
    let none =
        "of kind `never_end` has not ended after 300ms. No session waits for a lock that the test's transaction holds.";
    assert!(stuck.contains(none), "{stuck}");
}

/// SQLite cannot tell who waits.
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_given_up_on_sqlite_also_if_the_clock_is_paused() {
    let begun = Instant::now();
    let stuck = perform(NeverEnd).on(&mut database::sqlite_async().await).await.unwrap_err().to_string();
    assert!(begun.elapsed() >= Duration::from_millis(300), "{begun:?}");
    assert!(stuck.contains("Perhaps it uses another connection"), "{stuck}");
    for stuck in [
        perform(NeverEnd).on(&mut database::sqlite()).unwrap_err(),
        perform(SleepLong).time_limit(LIMIT).on(&mut database::sqlite()).unwrap_err(),
    ] {
        assert!(stuck.to_string().contains("Perhaps it uses another connection"), "{stuck}");
    }
    // The handlers would sleep for longer than these minutes.
    assert!(begun.elapsed() < MINUTES, "{begun:?}");
}

/// This handler borrows the connection, so the test waits for it. The message is printed by a second process, which
/// runs this test only, while its handler waits.
#[test]
fn a_plain_handler_that_takes_the_connection_is_reported_and_waited_for() {
    const SECOND: &str = "JOBS_TEST_PRINTS";
    if std::env::var_os(SECOND).is_some() {
        perform(WaitWithTheConnection).time_limit(LIMIT).on(&mut database::sqlite()).unwrap();
        return;
    }
    let name = "stuck::a_plain_handler_that_takes_the_connection_is_reported_and_waited_for";
    let mut second = Command::new(std::env::current_exe().unwrap());
    second.args(["--exact", name, "--nocapture"]).env(SECOND, "1");
    let mut second = second.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, lines) = mpsc::channel();
    let stderr = BufReader::new(second.stderr.take().unwrap());
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let message = "of kind `wait_with_the_connection` has not ended after 500ms. Perhaps";
    let is_printed = std::iter::from_fn(|| lines.recv_timeout(MINUTES).ok()).any(|line| line.contains(message));
    drop(second.stdin.take());
    let status = second.wait().unwrap();
    assert!(is_printed && status.success(), "{is_printed}, {status}");
}
