//! A database of its own for each test.

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_jobs::testing::TestDatabase;

use crate::database::server;

const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/axum-app/migrations");

fn names(like: &str) -> Vec<String> {
    let mut admin = PgConnection::establish(&server()).unwrap();
    let names = diesel::dsl::sql::<diesel::sql_types::Text>(&format!(
        "datname::text from pg_database where datname like '{like}'"
    ));
    diesel::select(names).load(&mut admin).unwrap()
}

#[tokio::test]
async fn each_test_has_all_tables_to_itself_and_leaves_no_database() {
    let create = || TestDatabase::builder().server(server()).migrations(MIGRATIONS).create();
    let (a, b) = tokio::join!(create(), create());
    let (a, b) = (a.unwrap(), b.unwrap());
    let name = a.url().rsplit_once('/').unwrap().1.to_owned();
    {
        let mut conn = PgConnection::establish(a.url()).unwrap();
        conn.batch_execute("insert into customers (email, credit_cents) values ('ada@example.org', 1)").unwrap();
        conn.batch_execute("select jobs.enqueue('k', '{}'); select from __diesel_schema_migrations").unwrap();
        let mut other = PgConnection::establish(b.url()).unwrap();
        let rows = diesel::dsl::sql::<diesel::sql_types::BigInt>("count(*) from customers");
        assert_eq!(diesel::select(rows).get_result::<i64>(&mut other).unwrap(), 0);
    }
    assert_eq!(names(&name), std::slice::from_ref(&name));
    drop((a, b));
    assert!(names(&name).is_empty());
}

#[test]
fn a_test_that_panics_keeps_its_database_and_a_sync_one_needs_no_runtime() {
    let url = std::thread::spawn(|| {
        let database = TestDatabase::builder().server(server()).create_blocking().unwrap();
        let url = database.url().to_owned();
        std::panic::panic_any(url);
    });
    let url = *url.join().unwrap_err().downcast::<String>().unwrap();
    let name = url.rsplit_once('/').unwrap().1;
    assert_eq!(names(name), [name]);
    let mut admin = PgConnection::establish(&server()).unwrap();
    admin.batch_execute(&format!("drop database {name}")).unwrap();
}

#[test]
fn sqlite_has_a_file_for_the_time_of_the_test() {
    let database = TestDatabase::builder().server("sqlite:").create_blocking().unwrap();
    let path = database.url().strip_prefix("sqlite://").unwrap().to_owned();
    let mut conn = SqliteConnection::establish(&path).unwrap();
    conn.batch_execute("pragma journal_mode = wal; select * from jobs_job").unwrap();
    assert!(std::fs::exists(&path).unwrap());
    drop((conn, database));
    for end in ["", "-wal", "-shm"] {
        assert!(!std::fs::exists(format!("{path}{end}")).unwrap(), "{end}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let builder = || TestDatabase::builder().server(server());
    let missing = builder().migrations("no/such/directory").create().await.unwrap_err().to_string();
    assert!(missing.contains("the migrations in no/such/directory cannot be read"), "{missing}");
    let away = TestDatabase::builder().server("postgres://127.0.0.1:1/x").create().await.unwrap_err().to_string();
    assert!(away.contains("the server of the test database"), "{away}");

    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("2026-01-01-000000_broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("up.sql"), "create table broken (nonsense").unwrap();
    let refused = builder().migrations(directory.path()).create().await.unwrap_err().to_string();
    assert!(refused.contains("migration 2026-01-01-000000_broken: "), "{refused}");
    std::fs::write(broken.join("up.sql"), "create table mended (id integer)").unwrap();
    builder().migrations(directory.path()).create().await.unwrap();
}
