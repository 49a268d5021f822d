//! `crash_everywhere`, on every type of connection.

use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::crash_everywhere;

use crate::database::{self, Database};
use crate::jobs::{Calls, Charge, SendWelcome};

type Ran = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const FIRST: &str = "insert into note (text) values ('first')";
const SECOND: &str = "insert into note (text) values ('second')";

/// What a handler does wrong.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Fault {
    None,
    /// It counts in a state, between its two statements.
    Counts,
    /// It writes only when it is called for the first time.
    Skips,
    /// It fails when it is called again.
    Fails,
}

/// Returns whether the handler continues.
fn call(fault: Fault, calls: &Calls) -> Result<bool, JobError> {
    if fault != Fault::None {
        calls.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    match fault {
        Fault::Fails if calls.number() > 1 => Err(JobError::msg("it ran before")),
        Fault::Skips => Ok(calls.number() == 1),
        _ => Ok(true),
    }
}

fn call_and_write<C>(conn: &mut C, fault: Fault, calls: &Calls) -> Ran
where
    C: Connection,
    diesel::query_builder::SqlQuery: diesel::query_dsl::methods::ExecuteDsl<C>,
{
    diesel::sql_query(FIRST).execute(conn)?;
    if call(fault, calls)? {
        // A transaction of its own stays open when it crashes.
        conn.transaction(|conn| diesel::sql_query(SECOND).execute(conn))?;
    }
    Ok(())
}

#[job]
fn crash_pg(fault: Fault, conn: &mut PgConnection, State(calls): State<Calls>) -> Ran {
    call_and_write(conn, fault, &calls)?;
    SendWelcome::new(1, "v1", vec![]).enqueue(conn)?;
    Ok(())
}

#[job]
fn crash_sqlite(fault: Fault, conn: &mut SqliteConnection, State(calls): State<Calls>) -> Ran {
    call_and_write(conn, fault, &calls)?;
    SendWelcome::new(1, "v1", vec![]).enqueue(conn)?;
    Ok(())
}

#[job]
async fn crash_async(fault: Fault, conn: &mut AsyncPgConnection, State(calls): State<Calls>) -> Ran {
    use diesel_async::{AsyncConnection as _, RunQueryDsl};
    RunQueryDsl::execute(diesel::sql_query(FIRST), conn).await?;
    if call(fault, &calls)? {
        conn.transaction(async |conn| RunQueryDsl::execute(diesel::sql_query(SECOND), conn).await).await?;
    }
    SendWelcome::new(1, "v1", vec![]).enqueue(conn).await?;
    Ok(())
}

macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*], $dsl:path, $job:ident) => {
        mod $module {
            use super::*;

            #[tokio::test]
            async fn a_handler_that_leaves_everything_to_the_transaction_passes_and_nothing_remains() {
                use $dsl as Dsl;
                let $database = $create;
                let mut conn = $open;
                let job = $job { fault: Fault::None };
                let crashes = crash_everywhere(job).state_with(Calls::default).observe(Calls::number);
                let crashes = crashes.on(&mut conn)$($wait)*.unwrap();
                assert!((3..8).contains(&crashes), "{crashes}");
                let left = diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>("(select count(*) from note)"));
                let left: i64 = Dsl::get_result(left, &mut conn)$($wait)*.unwrap();
                assert_eq!(left, 0);
                diesel_jobs::refute_enqueued!(conn, SendWelcome)$($wait)*;
            }

            #[tokio::test]
            async fn an_effect_outside_of_the_transaction_is_found_at_the_statement_after_it() {
                let $database = $create;
                let mut conn = $open;
                let counts = crash_everywhere($job { fault: Fault::Counts }).state_with(Calls::default);
                let found = counts.observe(Calls::number).on(&mut conn)$($wait)*.unwrap_err().to_string();
                let place = format!("` at statement 2 (`{SECOND}`) and a retry, what is observed differs");
                assert!(found.contains(&place), "{found}");
                assert!(found.ends_with("\n  missing: 1\n  too many: 2"), "{found}");
                // A value that all runs share counts on.
                let shared = crash_everywhere($job { fault: Fault::Counts }).state(Calls::default());
                let found = shared.observe(Calls::number).on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(found.contains("at statement 1 ("), "{found}");
            }

            #[tokio::test]
            async fn rows_and_jobs_that_a_retry_leaves_out_are_shown() {
                let $database = $create;
                let mut conn = $open;
                let skips = crash_everywhere($job { fault: Fault::Skips }).state_with(Calls::default);
                let found = skips.on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(found.contains("at statement 2 (") && found.contains("note differs\n  missing: "), "{found}");
                assert!(found.contains("second") && !found.contains("first'") && !found.contains("too many"), "{found}");
                let fails = crash_everywhere($job { fault: Fault::Fails }).state_with(Calls::default);
                let found = fails.on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(found.ends_with("and a retry, the retry fails: it ran before"), "{found}");
                let alone = crash_everywhere(Charge { order_id: 7 }).state(Calls::default());
                let refused = alone.on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert_eq!(refused, "the handler of `charge` takes no connection, so there is no statement to crash at");
            }
        }
    };
}

on!(pg, database = Database::create(), database.pg(), [], diesel::RunQueryDsl, CrashPg);
on!(
    pg_async,
    database = Database::create(),
    database.pg_async().await,
    [.await],
    diesel_async::RunQueryDsl,
    CrashAsync
);
on!(sqlite, _ = (), database::sqlite(), [], diesel::RunQueryDsl, CrashSqlite);
on!(sqlite_async, _ = (), database::sqlite_async().await, [.await], diesel_async::RunQueryDsl, CrashSqlite);

/// Where a handler opens a connection of its own.
#[derive(Clone)]
struct Url(String);

#[job]
fn write_through_a_second_connection(conn: &mut PgConnection, State(url): State<Url>) -> Ran {
    diesel::sql_query(FIRST).execute(&mut PgConnection::establish(&url.0)?)?;
    diesel::sql_query(SECOND).execute(conn)?;
    Ok(())
}

#[job]
fn write_numbered_rows(conn: &mut PgConnection) -> Ran {
    diesel::sql_query(
        "with one as (insert into entry default values returning id),
              two as (insert into page select id, 'b' from one returning entry_id),
              three as (insert into photo select entry_id, 'c' from two)
         insert into line (entry_id, text) select id, 'a' from one",
    )
    .execute(conn)?;
    Ok(())
}

#[test]
fn a_write_through_a_second_connection_is_found() {
    let database = Database::create();
    let mut conn = database.pg();
    let job = crash_everywhere(WriteThroughASecondConnection).state(Url(database.url()));
    let found = job.on(&mut conn).unwrap_err().to_string();
    assert!(found.contains("public.note differs\n  too many: {\"text\": \"first\"}"), "{found}");
}

/// Sequences and clocks do not go back when a transaction is rolled back.
#[test]
fn numbers_of_a_sequence_and_times_are_not_compared() {
    use diesel::connection::SimpleConnection as _;
    let database = Database::create();
    let mut conn = database.pg();
    conn.batch_execute(
        "create table entry (id bigint generated always as identity primary key, at timestamptz not null default clock_timestamp());
         create table page (entry_id bigint primary key references entry, t text not null);
         create table photo (page bigint not null references page, t text not null, twice bigint generated always as (page * 2) stored);
         create table line (id bigserial, entry_id bigint not null references entry, text text not null)",
    )
    .unwrap();
    assert_eq!(crash_everywhere(WriteNumberedRows).on(&mut conn).unwrap(), 1);
}

#[job]
fn keep(#[arg(secret)] _token: String) {}

#[job]
fn write_once(conn: &mut SqliteConnection, State(calls): State<Calls>) -> Ran {
    diesel::sql_query(FIRST).execute(conn)?;
    if call(Fault::Skips, &calls)? {
        diesel::sql_query("insert into jobs_archive values ('x')").execute(conn)?;
        Keep::new("s3cret").enqueue(conn)?;
    }
    Ok(())
}

#[test]
fn a_table_of_a_name_like_ours_is_compared_and_a_secret_is_not_shown() {
    use diesel::connection::SimpleConnection as _;
    let found = |table: &str| {
        let mut conn = database::sqlite();
        conn.batch_execute(table).unwrap();
        let job = crash_everywhere(WriteOnce).state_with(Calls::default);
        job.on(&mut conn).unwrap_err().to_string()
    };
    let rows = found("create table jobs_archive (name text)");
    assert!(rows.contains("jobs_archive differs\n  missing: name: 'x'"), "{rows}");
    let jobs = found(
        "create view jobs_archive as select 1; create trigger keep instead of insert on jobs_archive begin select 1; end",
    );
    assert!(jobs.contains("the waiting jobs differs") && jobs.contains("[redacted]"), "{jobs}");
    assert!(!jobs.contains("s3cret"), "{jobs}");
}

#[job]
async fn wait_for_a_row(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    use diesel_async::RunQueryDsl;
    RunQueryDsl::execute(diesel::sql_query("update note set text = 'mine'"), conn).await.map(drop)
}

#[tokio::test]
async fn a_handler_that_waits_for_a_lock_is_given_up() {
    use diesel::connection::SimpleConnection as _;
    let database = Database::create();
    let mut other = PgConnection::establish(&database.url()).unwrap();
    other.batch_execute("insert into note values ('a')").unwrap();
    other.batch_execute("begin; update note set text = 'b'").unwrap();
    let mut conn = database.pg_async().await;
    let job = crash_everywhere(WaitForARow).time_limit(std::time::Duration::from_millis(300));
    let found = job.on(&mut conn).await.unwrap_err().to_string();
    assert!(found.contains("of kind `wait_for_a_row` has not ended after 300ms"), "{found}");
}
