//! The real web server and the real worker, asked over HTTP and stopped by signals.

use diesel::connection::SimpleConnection as _;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_jobs::testing::TestDatabase;
use programs::{Client, Process, until};
use serde_json::json;

use crate::database::database;

const TICKETS: i64 = 20;

fn number(database: &TestDatabase, query: &str) -> i64 {
    let mut conn = PgConnection::establish(database.url()).unwrap();
    diesel::select(sql::<BigInt>(&format!("({query})::bigint"))).get_result(&mut conn).unwrap()
}

fn start_desk(database: &TestDatabase, args: &[&str]) -> Process {
    Process::start(env!("CARGO_BIN_EXE_desk"), database.url(), args, &[("BIND", "127.0.0.1:0")])
}

/// Opens tickets over HTTP, waits until their pages show agents, and checks the agents' counts.
async fn tickets_are_assigned(database: &TestDatabase, desk: &Process) -> Client {
    let mut client = Client::connect(&desk.logged("listening on http://").await).await;
    for n in 0..TICKETS {
        let ticket = json!({ "email": format!("{n}@example.org"), "subject": "no light" });
        let (status, answer) = client.post("/tickets", ticket).await;
        assert_eq!(status, 201, "{answer}");
    }
    for id in 1..=TICKETS {
        until("an agent", async || {
            let (status, ticket) = client.get(&format!("/tickets/{id}")).await;
            assert_eq!(status, 200, "{ticket}");
            ticket["agent"].as_str().map(drop)
        })
        .await;
    }
    let wrong = "select count(*) from agents a where assigned <> (select count(*) from tickets where agent_id = a.id)";
    assert_eq!((number(database, wrong), number(database, "select sum(assigned) from agents")), (0, TICKETS));
    client
}

#[tokio::test]
async fn a_worker_of_its_own_assigns_the_tickets() {
    let database = database();
    let desk = start_desk(&database, &[]);
    let worker = Process::start(env!("CARGO_BIN_EXE_desk-worker"), database.url(), &[], &[]);
    // The client stays connected until the end.
    let _client = tickets_are_assigned(&database, &desk).await;
    for process in [worker, desk] {
        process.signal("TERM");
        process.succeeded().await;
    }
    assert_eq!(number(&database, "select count(*) from jobs.worker"), 0);
}

#[tokio::test]
async fn the_worker_inside_the_server_assigns_them_and_stops_with_it() {
    let database = database();
    let desk = start_desk(&database, &["--with-worker"]);
    let _client = tickets_are_assigned(&database, &desk).await;
    assert_eq!(number(&database, "select count(*) from jobs.worker"), 1);
    desk.signal("TERM");
    desk.logged("worker stopped").await;
    desk.succeeded().await;
    assert_eq!(number(&database, "select count(*) from jobs.worker"), 0);
}

#[tokio::test]
async fn a_worker_that_cannot_start_ends_the_server() {
    let database = database();
    PgConnection::establish(database.url()).unwrap().batch_execute("drop schema jobs cascade").unwrap();
    let mut desk = start_desk(&database, &["--with-worker"]);
    assert_eq!(desk.ended().await.code(), Some(1));
    desk.logged("Error: the worker").await;
}
