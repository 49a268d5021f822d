//! The real web server and the real worker, asked over HTTP and stopped by signals.

use diesel::dsl::sql;
use diesel::sql_types::BigInt;
use diesel_async::{RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs::testing::TestDatabase;
use programs::{Client, Process, until};
use serde_json::json;

use crate::database::{connection, database};

const BOOKS: [&str; 3] = ["Emma", "Middlemarch", "Nana"];

async fn number(database: &TestDatabase, query: &str) -> i64 {
    let query = diesel::select(sql::<BigInt>(&format!("({query})::bigint")));
    query.get_result(&mut connection(database).await).await.unwrap()
}

fn start_library(database: &TestDatabase, args: &[&str]) -> Process {
    let env = [("ROCKET_PORT", "0"), ("REMIND_AFTER_SECONDS", "3600")];
    Process::start(env!("CARGO_BIN_EXE_library"), database.url(), args, &env)
}

/// Borrows all books over HTTP, returns the first one, and lets the hour pass until the readers are reminded. Waits
/// until the pages of the other books show their letters.
async fn readers_are_reminded(database: &TestDatabase, library: &Process) -> Client {
    let mut client = Client::connect(&library.logged("launched from http://").await).await;
    for (book, id) in BOOKS.iter().zip(1..) {
        let (status, answer) = client.post("/loans", json!({ "book": book, "reader": "Eve" })).await;
        assert_eq!((status.as_u16(), answer), (201, json!({ "id": id })));
    }
    let (status, answer) = client.post("/loans/1/return", "").await;
    assert_eq!(status, 204, "{answer}");
    let run_now = ["run-now", "--kind", "remind", "--yes", "--actor", "Eve"];
    Process::start(env!("CARGO_BIN_EXE_library-worker"), database.url(), &run_now, &[]).succeeded().await;
    for id in [2, 3] {
        let letters = until("a letter", async || {
            let (status, loan) = client.get(&format!("/loans/{id}")).await;
            assert_eq!(status, 200, "{loan}");
            loan["letters"].as_array().filter(|letters| !letters.is_empty()).cloned()
        });
        assert_eq!(letters.await, ["reminder"]);
    }
    let done = "select count(*) from jobs.job where kind = 'remind' and state = 'completed'";
    until("all jobs", async || (number(database, done).await == 3).then_some(())).await;
    assert_eq!(number(database, "select count(*) from letters").await, 2);
    client
}

#[tokio::test]
async fn a_worker_of_its_own_writes_the_letters() {
    let database = database().await;
    let library = start_library(&database, &[]);
    let worker = Process::start(env!("CARGO_BIN_EXE_library-worker"), database.url(), &[], &[]);
    // The client stays connected until the end.
    let _client = readers_are_reminded(&database, &library).await;
    for process in [worker, library] {
        process.signal("TERM");
        process.succeeded().await;
    }
    assert_eq!(number(&database, "select count(*) from jobs.worker").await, 0);
}

#[tokio::test]
async fn the_worker_inside_the_server_writes_them_and_stops_with_it() {
    let database = database().await;
    let library = start_library(&database, &["--with-worker"]);
    let _client = readers_are_reminded(&database, &library).await;
    assert_eq!(number(&database, "select count(*) from jobs.worker").await, 1);
    library.signal("TERM");
    library.logged("worker stopped").await;
    library.succeeded().await;
    assert_eq!(number(&database, "select count(*) from jobs.worker").await, 0);
}

#[tokio::test]
async fn a_worker_that_cannot_start_ends_the_server() {
    let database = database().await;
    connection(&database).await.batch_execute("drop schema jobs cascade").await.unwrap();
    let mut library = start_library(&database, &["--with-worker"]);
    assert_eq!(library.ended().await.code(), Some(1));
    library.logged("Error: the worker").await;
}

#[tokio::test]
async fn a_wrong_setting_is_named() {
    let database = database().await;
    let env = [("ROCKET_PORT", "many")];
    let mut library = Process::start(env!("CARGO_BIN_EXE_library"), database.url(), &[], &env);
    assert_eq!(library.ended().await.code(), Some(1));
    library.logged("for key \"PORT\"").await;
}

#[tokio::test]
async fn a_server_that_cannot_start_ends_the_worker() {
    let database = database().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let library = env!("CARGO_BIN_EXE_library");
    let mut library = Process::start(library, database.url(), &["--with-worker"], &[("ROCKET_PORT", &port)]);
    assert_eq!(library.ended().await.code(), Some(1));
    library.logged("in use").await;
}
