//! The event stream sends what changes on a page, to those who may see it.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use diesel_jobs_web::Rights;
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Db, LIMIT, within};

use crate::client::{Client, dashboard};
use crate::jobs::{SendMail, registry};
use crate::seed::seed;

/// The next event of a stream that is no comment. `None` at its end.
async fn next(body: &mut Body) -> Option<String> {
    within(LIMIT, "an event", async {
        loop {
            let frame = body.frame().await?.unwrap();
            let text = String::from_utf8(frame.into_data().unwrap().into()).unwrap();
            if !text.starts_with(':') {
                return Some(text);
            }
        }
    })
    .await
}

async fn a_change_is_sent(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let response: Response = client.begin(Method::GET, "/events?page=/jobs%3Fkind%3Dsend_mail", "", &[]).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let first = next(&mut body).await.unwrap();
    assert!(first.starts_with("event: page\ndata: ") && first.ends_with("\n\n"), "{first}");
    assert!(first.contains("send_mail") && !first.contains("<h1>"), "{first}");
    let id = db.enqueue(SendMail { to: "new".to_owned() }).await;
    let mark = format!("Select job {id}\"");
    within(LIMIT, "the new job", async { while !next(&mut body).await.unwrap().contains(&mark) {} }).await;
}

async fn a_stream_ends_with_the_right(db: Db) {
    seed(&db).await;
    let allowed = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&allowed);
    let client = Client::on(dashboard(db.database().clone(), registry()).rights(move |_| {
        std::future::ready(if asked.load(Ordering::Relaxed) { Rights::read_only("ada") } else { Rights::none() })
    }));
    let mut body = client.begin(Method::GET, "/events?page=/", "", &[]).await.into_body();
    assert!(next(&mut body).await.is_some());
    allowed.store(false, Ordering::Relaxed);
    within(LIMIT, "the end of the stream", async { while next(&mut body).await.is_some() {} }).await;
}

async fn only_pages_of_the_dashboard_are_streamed(db: Db) {
    let client = Client::of(db.database());
    for page in ["", "https://evil.example/", "//evil.example/", "jobs", "%00"] {
        let answer = client.get(&format!("/events?page={page}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{page}");
    }
}

support::on_each_database! { a_change_is_sent, a_stream_ends_with_the_right, only_pages_of_the_dashboard_are_streamed }
