//! A version that changes the tables of a database in use.

#[path = "index_tests.rs"]
mod indexes;

use std::time::Duration;

use diesel::QueryableByName;
use diesel::sql_query;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::NewJob;

use super::up;
use crate::migrations::{Migration, POSTGRES};
use crate::pg::advisory;
use crate::pg::migrate::locks::{Attempts, Holders};
use crate::pg::tests::{database, url};

/// Only guards against hanging.
const LIMIT: Duration = Duration::from_secs(300);

/// All versions, and one more that needs the lock of the table of waiting jobs.
fn next() -> &'static [Migration] {
    next_with("alter table jobs.ready add column note text")
}

/// All versions, and one more with these statements.
fn next_with(statements: &str) -> &'static [Migration] {
    let known = POSTGRES.iter().map(|of| Migration { version: of.version, name: of.name, up: of.up, down: of.down });
    let version = i32::try_from(POSTGRES.len()).unwrap() + 1;
    let up = format!(
        "{statements};
         insert into jobs.schema_migration (version, name, oldest_program) values ({version}, 'note', 1)"
    );
    let next = Migration { version, name: "note", up: up.leak(), down: "" };
    known.chain([next]).collect::<Vec<_>>().leak()
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// Waits until this query counts something.
async fn until_some(conn: &mut AsyncPgConnection, query: &str) {
    tokio::time::timeout(LIMIT, async {
        while sql_query(query).get_result::<Number>(conn).await.unwrap().number == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("nothing: {query}"));
}

async fn connect(name: &str) -> AsyncPgConnection {
    AsyncPgConnection::establish(&url(name)).await.unwrap()
}

#[tokio::test]
async fn a_version_waits_for_open_transactions_and_stops_no_enqueue() {
    let (mut admin, name, _storage) = database().await;
    let (mut reader, mut client, mut look) = (connect(&name).await, connect(&name).await, connect(&name).await);
    reader.batch_execute("begin; select from jobs.ready").await.unwrap();
    let migration = tokio::spawn({
        let mut conn = connect(&name).await;
        async move { up(&mut conn, next(), false).await.unwrap() }
    });
    let waits = "select count(*) as number from pg_locks where mode = 'AccessExclusiveLock' and not granted
                 and database = (select oid from pg_database where datname = current_database())";
    for _ in 0..2 {
        until_some(&mut look, waits).await;
        // It stands behind the migration, and the reader's transaction does not end.
        let enqueue = crate::enqueue_all(&mut client, vec![NewJob::raw("k", "{}")]);
        tokio::time::timeout(LIMIT, enqueue).await.expect("the enqueue waits for the migration").unwrap();
    }
    assert!(!migration.is_finished());
    reader.batch_execute("commit").await.unwrap();
    assert_eq!(tokio::time::timeout(LIMIT, migration).await.unwrap().unwrap(), [next().len() as i32]);
    let noted =
        sql_query("select count(*) as number from jobs.ready where note is null").get_result::<Number>(&mut look);
    assert_eq!(noted.await.unwrap().number, 2);
    drop((reader, client, look));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// The reader waits for the first table, of which the migration has the lock, and the migration then for the last one,
/// which the reader uses.
#[tokio::test]
async fn a_transaction_that_locks_in_another_order_is_not_aborted() {
    let (mut admin, name, _storage) = database().await;
    let (mut reader, mut other, mut look) = (connect(&name).await, connect(&name).await, connect(&name).await);
    // The server then looks for a deadlock long after the migration has given up.
    let late = "set deadlock_timeout = '20s'";
    reader.batch_execute(&format!("{late}; begin")).await.unwrap();
    let touch = async |conn: &mut AsyncPgConnection, place: &str| {
        let table = format!(
            "do $$ begin execute (
                 select 'select from jobs.' || relname from pg_class
                 where relnamespace = 'jobs'::regnamespace and relkind in ('r', 'p') order by {place} limit 1
             ); end $$"
        );
        conn.batch_execute(&table).await
    };
    touch(&mut reader, "oid desc").await.unwrap();
    other.batch_execute("begin").await.unwrap();
    touch(&mut other, "oid offset 1").await.unwrap();
    let migration = tokio::spawn({
        let mut conn = connect(&name).await;
        conn.batch_execute(late).await.unwrap();
        async move { up(&mut conn, next(), false).await.unwrap() }
    });
    let waits = |mode: &str| {
        format!(
            "select count(*) as number from pg_locks where mode = '{mode}' and not granted
             and database = (select oid from pg_database where datname = current_database())"
        )
    };
    until_some(&mut look, &waits("AccessExclusiveLock")).await;
    let reading = tokio::spawn(async move {
        let read = touch(&mut reader, "oid").await;
        reader.batch_execute("commit").await.unwrap();
        read
    });
    // On a slow machine it may come after the attempt.
    let waiting = waits("AccessShareLock");
    tokio::select! {
        () = until_some(&mut look, &waiting) => {}
        () = async { while !reading.is_finished() { tokio::time::sleep(Duration::from_millis(10)).await } } => {}
    }
    other.batch_execute("commit").await.unwrap();
    tokio::time::timeout(LIMIT, reading).await.unwrap().unwrap().expect("it only waits");
    assert_eq!(tokio::time::timeout(LIMIT, migration).await.unwrap().unwrap(), [next().len() as i32]);
    drop((other, look));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// A statement that reads the view has the view's lock before it waits for a table.
#[tokio::test]
async fn a_version_that_replaces_the_view_aborts_nobody_who_reads_it() {
    let (mut admin, name, _storage) = database().await;
    let (mut reader, mut look) = (connect(&name).await, connect(&name).await);
    let next = next_with("select pg_sleep(1); drop view jobs.job; create view jobs.job as select 1 as id");
    let migration = tokio::spawn({
        let mut conn = connect(&name).await;
        async move { up(&mut conn, next, false).await }
    });
    let locked = "select count(*) as number from pg_locks where mode = 'AccessExclusiveLock' and granted
                  and relation = 'jobs.ready'::regclass";
    let ended = async {
        while !migration.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await
        }
    };
    tokio::select! {
        () = until_some(&mut look, locked) => {}
        () = ended => {}
    }
    let read = tokio::time::timeout(LIMIT, reader.batch_execute("select from jobs.job")).await.unwrap();
    let done = tokio::time::timeout(LIMIT, migration).await.unwrap().unwrap();
    assert!(read.is_ok() && done.is_ok(), "{read:?} {done:?}");
    drop((reader, look));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// However short the application's statements must be, and whatever its transactions see.
#[tokio::test]
async fn a_second_process_waits_for_the_first_one() {
    let (mut admin, name, _storage) = database().await;
    let (mut first, mut second) = (connect(&name).await, connect(&name).await);
    first.batch_execute(&format!("begin; select pg_advisory_xact_lock({})", advisory::MIGRATE)).await.unwrap();
    second
        .batch_execute(
            "set statement_timeout = '5s'; set lock_timeout = '5s'; set default_transaction_isolation = serializable",
        )
        .await
        .unwrap();
    let migration = tokio::spawn(async move { (up(&mut second, next(), false).await.unwrap(), second) });
    let waits = "select count(*) as number from pg_stat_activity
                 where datname = current_database() and wait_event = 'advisory' and query_start < clock_timestamp() - interval '6 s'";
    until_some(&mut first, waits).await;
    assert!(!migration.is_finished());
    // It applies the version meanwhile.
    first.batch_execute(next().last().unwrap().up).await.unwrap();
    first.batch_execute("commit").await.unwrap();
    let (done, mut second) = tokio::time::timeout(LIMIT, migration).await.unwrap().unwrap();
    assert_eq!(done, Vec::<i32>::new());
    let limits = "select count(*) as number from pg_settings
                  where name in ('statement_timeout', 'lock_timeout') and setting = '5000'";
    assert_eq!(sql_query(limits).get_result::<Number>(&mut second).await.unwrap().number, 2);
    drop((first, second));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// A pause would keep the locks that the application's transaction has.
#[tokio::test]
async fn inside_a_transaction_of_the_application_its_time_limits_count() {
    let (mut admin, name, _storage) = database().await;
    let (mut reader, mut conn) = (connect(&name).await, connect(&name).await);
    reader.batch_execute("begin; select from jobs.ready").await.unwrap();
    conn.begin_test_transaction().await.unwrap();
    conn.batch_execute("set lock_timeout = '1s'").await.unwrap();
    let failed = tokio::time::timeout(LIMIT, up(&mut conn, next(), true)).await.unwrap().unwrap_err().to_string();
    assert!(failed.contains("note") && failed.contains("lock timeout"), "{failed}");
    reader.batch_execute("commit").await.unwrap();
    assert_eq!(up(&mut conn, next(), true).await.unwrap(), [next().len() as i32]);
    drop((reader, conn));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[test]
fn transactions_that_do_not_end_are_named_after_ten_minutes() {
    let holders = |locked| Holders { locked, oldest: "process 7 (psql)".to_owned(), has_vacuum: false };
    let (mut attempts, mut waited) = (Attempts::new(&POSTGRES[0]), Duration::ZERO);
    let error = loop {
        match attempts.pause_after(holders(false)) {
            Ok(pause) => waited += pause.unwrap(),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(waited.as_secs() / 60, 9);
    assert!(error.contains("0001_jobs was not applied") && error.contains("process 7 (psql)"), "{error}");
    assert_eq!(Attempts::new(&POSTGRES[0]).pause_after(holders(true)).unwrap(), None);
}
