//! The answers of the web server, and their effects in the database.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::{Client, Db, Process};

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Server {
    pub(crate) async fn start(db: &Db, review_after_seconds: &str) -> Self {
        let env = [("BIND", "127.0.0.1:0"), ("REVIEW_AFTER_SECONDS", review_after_seconds)];
        let process = Process::start(env!("CARGO_BIN_EXE_web"), &db.url, &[], &env);
        let address = process.logged("listening on http://").await;
        Self { process, address }
    }
}

const CUSTOMERS: &str = "insert into customers (email, credit_cents) values ('ada@example.org', 100)";

#[tokio::test]
async fn an_order_comes_with_its_jobs() {
    let db = Db::migrated().await;
    db.run(CUSTOMERS).await;
    let server = Server::start(&db, "60").await;
    let mut client = Client::connect(&server.address).await;

    let (status, placed) = client.order("ada@example.org", "tea", 60).await;
    assert_eq!((status, placed), (StatusCode::CREATED, json!({ "id": 1 })));
    let (status, order) = client.get("/orders/1").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&order["customer"], &order["item"], &order["cents"]),
        (&json!("ada@example.org"), &json!("tea"), &json!(60))
    );
    assert_eq!((&order["charged_at"], &order["mails"]), (&json!(null), &json!([])));

    let jobs = order["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["kind"].as_str().unwrap(), job["state"].as_str().unwrap()));
    assert_eq!(
        jobs.collect::<Vec<_>>(),
        [("charge", "available"), ("send_mail", "available"), ("send_mail", "scheduled")],
        "{order}"
    );
    assert_eq!(order["jobs"][0]["last_error"], json!(null));
    assert_eq!(db.number("select count(*) from jobs.job where (args->>'order_id')::bigint = 1").await, 3);
    let later = "select count(*) from jobs.job where args->>'template' = 'review' and run_at > now() + interval '50 s'";
    assert_eq!(db.number(later).await, 1);
    assert_eq!(db.number("select credit_cents from customers").await, 40);
}

#[tokio::test]
async fn a_refused_payment_leaves_nothing() {
    let db = Db::migrated().await;
    db.run(CUSTOMERS).await;
    let server = Server::start(&db, "60").await;
    let (status, answer) = Client::connect(&server.address).await.order("ada@example.org", "tea", 101).await;
    assert_eq!(status, StatusCode::PAYMENT_REQUIRED, "{answer}");
    assert_eq!(db.number("select count(*) from orders").await, 0);
    assert_eq!(db.number("select count(*) from jobs.job").await, 0);
    assert_eq!(db.number("select credit_cents from customers").await, 100);
    // The order was inserted and rolled back, because it has consumed an id.
    assert_eq!(db.number("select last_value from orders_id_seq where is_called").await, 1);
}

#[tokio::test]
async fn requests_that_fail_get_an_error() {
    let db = Db::migrated().await;
    let server = Server::start(&db, "60").await;
    let mut client = Client::connect(&server.address).await;
    assert_eq!(client.get("/health").await, (StatusCode::OK, json!({ "status": "ok" })));
    assert_eq!(client.get("/orders/7").await, (StatusCode::NOT_FOUND, json!({ "error": "no such order" })));
    assert_eq!(client.order("nobody@example.org", "tea", 1).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(client.order("nobody@example.org", "tea", 0).await.0, StatusCode::UNPROCESSABLE_ENTITY);

    db.run("alter table orders rename to gone").await;
    let (status, answer) = client.get("/orders/7").await;
    assert_eq!(
        (status, answer),
        (StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": "the shop is not well; try again later" }))
    );
    server.process.logged("relation \"orders\" does not exist").await;
}

#[tokio::test]
async fn sigterm_ends_the_server_although_a_client_is_still_connected() {
    let db = Db::migrated().await;
    let Server { process, address } = Server::start(&db, "60").await;
    let mut client = Client::connect(&address).await;
    client.get("/health").await;
    process.signal("TERM");
    process.succeeded().await;
}
