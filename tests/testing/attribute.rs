//! `#[diesel_jobs::test]`, on every type of connection, and `tick`.

use std::sync::Mutex;

use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs::assert_enqueued;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::{drain, tick};

use crate::database;
use crate::jobs::{Calls, Charge};

const ONE_NOTE: &str = "create table attribute_note (text text primary key); insert into attribute_note values ('one')";

/// The table is created in the transaction of the test. If it stayed, the second of two tests would fail.
fn one_note<C: diesel::connection::SimpleConnection>(conn: &mut C) -> QueryResult<()> {
    conn.batch_execute(ONE_NOTE)
}

async fn one_note_async<C: diesel_async::SimpleAsyncConnection>(conn: &mut C) {
    conn.batch_execute(ONE_NOTE).await.unwrap();
}

/// The tests for a type of connection: with `async` and `.await` or without both.
macro_rules! on {
    ($module:ident, $connection:ty, $setup:path, [$($asyncness:tt)?], [$($wait:tt)*]) => {
        mod $module {
            use super::*;

            #[diesel_jobs::test(migrations = "migrations", setup = $setup)]
            $($asyncness)? fn a_test_has_a_transaction_of_its_own(conn: &mut $connection) {
                Charge { order_id: 7 }.enqueue(conn)$($wait)*.unwrap();
                assert_enqueued!(conn, Charge { order_id: 7 }, count = 1)$($wait)*;
            }

            #[diesel_jobs::test(setup = $setup)]
            $($asyncness)? fn nothing_of_another_test_is_there(
                conn: &mut $connection,
            ) -> Result<(), Box<dyn std::error::Error>> {
                Charge { order_id: 7 }.enqueue(conn)$($wait)*?;
                assert_enqueued!(conn, Charge, count = 1)$($wait)*;
                let report = drain(conn).state(Calls::default()).run()$($wait)*?;
                assert!(report.to_string().starts_with("1 attempt ran, 0 jobs wait"), "{report}");
                Ok(())
            }

            #[diesel_jobs::test]
            #[should_panic(expected = "not enqueued: Charge")]
            $($asyncness)? fn attributes_are_kept(conn: &mut $connection) {
                assert_enqueued!(conn, Charge)$($wait)*;
            }

            #[diesel_jobs::test(migrations = "no/such/directory")]
            #[should_panic(expected = "the connection of this test cannot be opened: the migrations in ")]
            $($asyncness)? fn a_missing_directory_is_named(_: &mut $connection) {}
        }
    };
}

on!(sqlite, SqliteConnection, one_note, [], []);
on!(sqlite_async, SyncConnectionWrapper<SqliteConnection>, one_note_async, [async], [.await]);
on!(pg, PgConnection, one_note, [], []);
on!(pg_async, AsyncPgConnection, one_note_async, [async], [.await]);

#[diesel_jobs::test(migrations = "examples/axum-app/migrations")]
fn the_tables_of_the_migrations_are_there(conn: &mut PgConnection) {
    let count = diesel::dsl::sql::<diesel::sql_types::BigInt>("(select count(*) from customers)");
    let there: i64 = diesel::select(count).get_result(conn).unwrap();
    assert_eq!(there, 0);
}

fn fails(_: &mut SqliteConnection) -> Result<(), String> {
    Err("no users".to_owned())
}

#[diesel_jobs::test(setup = fails)]
#[should_panic(expected = "the `setup` of this test failed: \"no users\"")]
fn a_setup_that_fails_is_said(_: &mut SqliteConnection) {}

#[job(unique(by(order_id)))]
fn charge_once(order_id: i64) {
    let _ = order_id;
}

/// Another session in the database of a test.
fn beside(database: &str) -> PgConnection {
    let mut other = PgConnection::establish(&database::url_of(database)).unwrap();
    other.begin_test_transaction().unwrap();
    other
}

fn text(what: &str) -> diesel::expression::SqlLiteral<diesel::sql_types::Text> {
    diesel::dsl::sql(what)
}

const DATABASE: &str = "current_database()::text";
const LIMIT: &str = "current_setting('lock_timeout')";
/// This test waits for its own session.
const HARDLY_WAIT: &str = "set local lock_timeout = '50ms'";

#[diesel_jobs::test]
fn a_test_that_waits_for_the_unique_key_of_another_says_so(conn: &mut PgConnection) {
    use diesel::connection::SimpleConnection as _;

    assert_eq!(diesel::select(text(LIMIT)).get_result::<String>(conn).unwrap(), "20s");
    let mut other = beside(&diesel::select(text(DATABASE)).get_result::<String>(conn).unwrap());
    ChargeOnce { order_id: 7 }.enqueue(&mut other).unwrap();
    conn.batch_execute(HARDLY_WAIT).unwrap();
    let error = ChargeOnce { order_id: 7 }.enqueue(conn).unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("another test has probably enqueued"), "{error}");
}

#[diesel_jobs::test]
async fn an_async_test_that_waits_for_the_unique_key_of_another_says_so(conn: &mut AsyncPgConnection) {
    use diesel_async::{RunQueryDsl, SimpleAsyncConnection as _};

    let limit: String = RunQueryDsl::get_result(diesel::select(text(LIMIT)), conn).await.unwrap();
    assert_eq!(limit, "20s");
    let database: String = RunQueryDsl::get_result(diesel::select(text(DATABASE)), conn).await.unwrap();
    let mut other = beside(&database);
    ChargeOnce { order_id: 8 }.enqueue(&mut other).unwrap();
    conn.batch_execute(HARDLY_WAIT).await.unwrap();
    let error = ChargeOnce { order_id: 8 }.enqueue(conn).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("another test has probably enqueued"), "{error}");
}

/// The line of the assertion, as the panic hook sees it.
#[diesel_jobs::test]
async fn a_failed_assertion_has_the_place_of_the_test(conn: &mut AsyncPgConnection) {
    use futures_util::FutureExt as _;

    static PLACES: Mutex<Vec<(std::thread::ThreadId, String, u32)>> = Mutex::new(Vec::new());
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Some(at) = info.location() {
            PLACES.lock().unwrap().push((std::thread::current().id(), at.file().to_owned(), at.line()));
        }
        previous(info);
    }));
    let line = line!() + 2;
    let failed = std::panic::AssertUnwindSafe(async {
        assert_enqueued!(conn, Charge).await;
    });
    assert!(failed.catch_unwind().await.is_err());
    let places = PLACES.lock().unwrap();
    let here = std::thread::current().id();
    let (_, file, at) = places.iter().rfind(|(thread, ..)| *thread == here).unwrap();
    assert!(file.ends_with("tests/testing/attribute.rs"), "{file}");
    assert_eq!(*at, line);
}

#[job(cron = "30 2 * * *", timezone = "Europe/Berlin")]
fn count_at_night(ctx: &JobContext, conn: &mut SqliteConnection) -> QueryResult<()> {
    assert_eq!(ctx.now(), ctx.run_at());
    diesel::sql_query(format!("insert into attribute_note values ('{}')", ctx.run_at().to_rfc3339()))
        .execute(conn)
        .map(drop)
}

#[diesel_jobs::test(setup = one_note)]
fn a_tick_is_a_time_of_the_schedule(conn: &mut SqliteConnection) {
    tick(CountAtNight, "2026-07-01 02:30").on(conn).unwrap();
    tick(CountAtNight, "2026-01-01T01:30:00Z").on(conn).unwrap();
    let count = "(select count(*) from attribute_note where text in ('2026-07-01T00:30:00+00:00', '2026-01-01T01:30:00+00:00'))";
    let count: i64 = diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(count)).get_result(conn).unwrap();
    assert_eq!(count, 2);
}

fn refused<J: diesel_jobs::handler::Registered + diesel_jobs::enqueue::IntoNewJob>(job: J, at: &str) -> String {
    let ticked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(tick(job, at))));
    *ticked.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn what_is_no_tick_is_refused() {
    assert_eq!(
        refused(CountAtNight, "2026-07-01 02:31"),
        "job `count_at_night` has no tick at 2026-07-01 02:31 (\"30 2 * * *\", time zone Europe/Berlin); \
         the next one is at 2026-07-02 02:30:00"
    );
    assert_eq!(
        refused(CountAtNight, "2026-03-29 02:30"),
        "the tick \"2026-03-29 02:30\" of job `count_at_night` is a time that does not exist in Europe/Berlin"
    );
    assert!(refused(CountAtNight, "at two").contains("\"at two\" of job `count_at_night` is no time: write"));
    assert!(
        refused(Charge { order_id: 1 }, "2026-03-01 02:00").starts_with("job `charge` has neither `cron` nor `every`")
    );
}
