//! The routes, called without a server. The application and the test share one connection in a test transaction.

use actix_app::background::Assign;
use actix_app::schema::tickets;
use actix_app::{MOST_OPEN, Pool, routes};
use actix_web::App;
use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, call_service, init_service, read_body_json};
use actix_web::web::Data;
use diesel::prelude::*;
use diesel_jobs::{assert_enqueued, refute_enqueued};
use serde_json::{Value, json};

use crate::database::{database, pool};

async fn send(pool: &Pool, request: TestRequest) -> (StatusCode, Value) {
    let app = init_service(App::new().app_data(Data::new(pool.clone())).configure(routes)).await;
    let answer = call_service(&app, request.to_request()).await;
    (answer.status(), read_body_json(answer).await)
}

async fn open(pool: &Pool, ticket: Value) -> (StatusCode, Value) {
    send(pool, TestRequest::post().uri("/tickets").set_json(ticket)).await
}

#[actix_web::test]
async fn a_ticket_comes_with_its_job() {
    let database = database();
    let pool = pool(&database);
    let (status, answer) = open(&pool, json!({ "email": "eve@example.org", "subject": "no light" })).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let id = answer["id"].as_i64().unwrap();
    assert_enqueued!(pool.get().unwrap(), Assign { ticket_id: id }, queue = "desk", max_attempts = 10, count = 1);
}

#[actix_web::test]
async fn one_ticket_too_many_leaves_neither_a_ticket_nor_a_job() {
    let database = database();
    let pool = pool(&database);
    let again = async || open(&pool, json!({ "email": "eve@example.org", "subject": "no light" })).await.0;
    for _ in 0..MOST_OPEN {
        assert_eq!(again().await, StatusCode::CREATED);
    }
    assert_eq!(again().await, StatusCode::CONFLICT);
    let mut conn = pool.get().unwrap();
    assert_eq!(tickets::table.count().get_result::<i64>(&mut conn).unwrap(), MOST_OPEN);
    assert_enqueued!(conn, Assign, count = usize::try_from(MOST_OPEN).unwrap());
}

#[actix_web::test]
async fn bad_input_gets_an_error_that_names_it() {
    let database = database();
    let pool = pool(&database);
    let (status, answer) = open(&pool, json!({ "email": "eve@example.org" })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["error"].as_str().unwrap().contains("missing field `subject`"), "{answer}");
    for (email, subject) in [("eve", "no light"), ("eve@example.org", " ")] {
        let (status, answer) = open(&pool, json!({ "email": email, "subject": subject })).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(answer, json!({ "error": "a ticket needs an e-mail address and a subject" }));
    }
    let (status, answer) = send(&pool, TestRequest::get().uri("/tickets/7")).await;
    assert_eq!((status, answer), (StatusCode::NOT_FOUND, json!({ "error": "no such ticket" })));
    refute_enqueued!(pool.get().unwrap(), Assign);
}
