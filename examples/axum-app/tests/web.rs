//! The answers of the web server, and their effects in the database.

use programs::{Client, Process, StatusCode};
use serde_json::{Value, json};

use crate::database::Db;

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Server {
    pub(crate) async fn start(db: &Db, review_after_seconds: &str) -> Self {
        let env = [("BIND", "127.0.0.1:0"), ("REVIEW_AFTER_SECONDS", review_after_seconds)];
        let process = Process::start(env!("CARGO_BIN_EXE_web"), db.url(), &[], &env);
        let address = process.logged("listening on http://").await;
        Self { process, address }
    }
}

/// Places an order.
pub(crate) async fn order(client: &mut Client, customer: &str, item: &str, cents: i64) -> (StatusCode, Value) {
    client.post("/orders", json!({ "customer": customer, "item": item, "cents": cents })).await
}

const CUSTOMERS: &str = "insert into customers (email, credit_cents) values ('ada@example.org', 100)";

#[tokio::test]
async fn the_page_of_an_order_shows_its_jobs() {
    let db = Db::migrated().await;
    db.run(CUSTOMERS).await;
    let server = Server::start(&db, "60").await;
    let mut client = Client::connect(&server.address).await;

    let (status, placed) = order(&mut client, "ada@example.org", "tea", 60).await;
    assert_eq!((status, placed), (StatusCode::CREATED, json!({ "id": 1 })));
    let (status, mut page) = client.get("/orders/1").await;
    assert_eq!(status, StatusCode::OK);
    for job in page["jobs"].as_array_mut().unwrap() {
        // The times differ in each run.
        assert!(job.as_object_mut().unwrap().remove("run_at").is_some(), "{job}");
    }
    assert!(page.as_object_mut().unwrap().remove("placed_at").is_some(), "{page}");
    let job = |kind: &str, state: &str| json!({ "kind": kind, "state": state, "attempt": 0, "last_error": null });
    let jobs = [job("charge", "available"), job("send_mail", "available"), job("send_mail", "scheduled")];
    let expected = json!({
        "id": 1, "customer": "ada@example.org", "item": "tea", "cents": 60, "charged_at": null, "jobs": jobs, "mails": []
    });
    assert_eq!(page, expected);
    assert_eq!(db.number("select credit_cents from customers").await, 40);
}

#[tokio::test]
async fn a_refused_payment_is_rolled_back() {
    let db = Db::migrated().await;
    db.run(CUSTOMERS).await;
    let server = Server::start(&db, "60").await;
    let mut client = Client::connect(&server.address).await;
    let (status, answer) = order(&mut client, "ada@example.org", "tea", 101).await;
    assert_eq!(status, StatusCode::PAYMENT_REQUIRED, "{answer}");
    assert_eq!(db.number("select count(*) from orders").await, 0);
    assert_eq!(db.number("select count(*) from jobs.job").await, 0);
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
    assert_eq!(order(&mut client, "nobody@example.org", "tea", 1).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(order(&mut client, "nobody@example.org", "tea", 0).await.0, StatusCode::UNPROCESSABLE_ENTITY);

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
