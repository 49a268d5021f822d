//! The routes, called without a server. The application and the test share one connection in a test transaction.

use std::time::Duration;

use diesel::prelude::*;
use diesel_async::{RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs::{assert_enqueued, refute_enqueued};
use rocket::http::Status;
use rocket::local::asynchronous::{Client, LocalResponse};
use rocket_app::background::Remind;
use rocket_app::schema::{books, loans};
use rocket_app::{Pool, library};
use serde_json::{Value, json};

use crate::database::{database, pool};

async fn client(pool: &Pool) -> Client {
    Client::untracked(library(pool.clone(), Duration::from_secs(60))).await.unwrap()
}

async fn read(answer: LocalResponse<'_>) -> (Status, Value) {
    (answer.status(), answer.into_json().await.unwrap_or_default())
}

async fn lend(client: &Client, loan: Value) -> (Status, Value) {
    read(client.post("/loans").json(&loan).dispatch().await).await
}

#[tokio::test]
async fn a_loan_comes_with_its_reminder() {
    let database = database().await;
    let pool = pool(&database).await;
    let (status, answer) = lend(&client(&pool).await, json!({ "book": "Emma", "reader": "Eve" })).await;
    assert_eq!(status, Status::Created, "{answer}");
    let id = answer["id"].as_i64().unwrap();
    let mut conn = pool.get().await.unwrap();
    assert_enqueued!(conn, Remind { loan_id: id }, queue = "letters", run_in = 50..=60, count = 1).await;
}

#[tokio::test]
async fn a_book_that_is_lent_is_refused_without_a_job_until_it_is_returned() {
    let database = database().await;
    let pool = pool(&database).await;
    let client = client(&pool).await;
    let loan = || json!({ "book": "Emma", "reader": "Eve" });
    let (_, first) = lend(&client, loan()).await;
    let (status, answer) = lend(&client, loan()).await;
    assert_eq!((status, answer), (Status::Conflict, json!({ "error": "this book is lent" })));
    let reminders = async |count| {
        let mut conn = pool.get().await.unwrap();
        assert_enqueued!(conn, Remind, count = count).await;
    };
    reminders(1).await;

    let back = format!("/loans/{}/return", first["id"]);
    assert_eq!(client.post(&back).dispatch().await.status(), Status::NoContent);
    assert_eq!(client.post(&back).dispatch().await.status(), Status::NotFound);
    assert_eq!(lend(&client, loan()).await.0, Status::Created);
    reminders(2).await;
}

#[tokio::test]
async fn a_loan_whose_reminder_cannot_be_enqueued_is_rolled_back() {
    let database = database().await;
    let pool = pool(&database).await;
    let without_jobs = "drop schema jobs cascade; insert into books (title) values ('Ulysses')";
    pool.get().await.unwrap().batch_execute(without_jobs).await.unwrap();
    let refused = lend(&client(&pool).await, json!({ "book": "Ulysses", "reader": "Eve" })).await;
    let answer = json!({ "error": "the library is not well; try again later" });
    assert_eq!(refused, (Status::InternalServerError, answer));
    let mut conn = pool.get().await.unwrap();
    assert_eq!(loans::table.count().get_result::<i64>(&mut conn).await.unwrap(), 0);
    // The test transaction continues: only the savepoint of the loan was rolled back.
    let added = books::table.filter(books::title.eq("Ulysses")).count();
    assert_eq!(added.get_result::<i64>(&mut conn).await.unwrap(), 1);
}

#[tokio::test]
async fn bad_input_gets_an_error_that_names_it() {
    let database = database().await;
    let pool = pool(&database).await;
    let client = client(&pool).await;
    let (status, answer) = lend(&client, json!({ "book": "Emma" })).await;
    assert_eq!(status, Status::BadRequest);
    assert!(answer["error"].as_str().unwrap().contains("missing field `reader`"), "{answer}");
    let error = |text: &str| json!({ "error": text });
    let refused = lend(&client, json!({ "book": "Emma", "reader": " " })).await;
    assert_eq!(refused, (Status::UnprocessableEntity, error("a loan needs the name of a reader")));
    let refused = lend(&client, json!({ "book": "Ulysses", "reader": "Eve" })).await;
    assert_eq!(refused, (Status::NotFound, error("the library has no such book")));
    let refused = read(client.get("/loans/7").dispatch().await).await;
    assert_eq!(refused, (Status::NotFound, error("no such loan")));

    let mut conn = pool.get().await.unwrap();
    refute_enqueued!(conn, Remind).await;
    assert_eq!(loans::table.count().get_result::<i64>(&mut conn).await.unwrap(), 0);
}
