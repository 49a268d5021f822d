//! What an attacker sends: odd paths, headers that proxies set, other methods, too much of everything, and many event streams.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use diesel_jobs::JobState;
use support::Db;

use crate::client::Client;
use crate::seed::seed;

async fn odd_paths_are_not_found(db: Db) {
    let client = Client::of(db.database());
    for path in [
        "/assets/..",
        "/assets/../dashboard.css",
        "/assets/%2e%2e%2fCargo.toml",
        "/assets/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/dashboard.css%00",
        "/assets/%ff",
        "/jobs/%00",
        "/jobs/-",
        "/jobs/+1",
        "/jobs/%ff%fe",
        "/jobs/1%2f2",
        "/.git/config",
        "/..;/jobs",
        "/JOBS",
        "/%6a%6f%62%73/x",
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}: {}", answer.body);
        assert!(!answer.headers.contains_key("location"), "{path}");
    }
}

/// Links depend on the configured path only, and nothing is sent to a host that a header names.
async fn headers_of_proxies_change_nothing(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let forged = [
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "gopher"),
        ("x-forwarded-prefix", "/evil"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-original-url", "/admin/jobs/help"),
        ("x-rewrite-url", "/admin/jobs/help"),
        ("forwarded", "host=evil.example;proto=https"),
        ("x-http-method-override", "POST"),
    ];
    for path in ["", "/jobs", "/jobs/", "/queues"] {
        let (plain, with) = (client.get(path).await, client.send(Method::GET, path, "", &forged).await);
        assert_eq!(plain.status, with.status, "{path}");
        assert!(!with.body.contains("evil"), "{path}");
        assert_eq!(plain.headers.get("location"), with.headers.get("location"), "{path}");
        // The parser of the tests checks that all links begin with the configured path.
        with.page();
    }
}

async fn only_a_post_changes_something(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let form = format!("action=cancel&id={}", jobs.available);
    for method in
        [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS, Method::TRACE]
    {
        let headers = [
            ("sec-fetch-site", "same-origin"),
            ("x-http-method-override", "POST"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        client.send(method.clone(), &format!("/confirm?{form}&_method=POST"), &form, &headers).await;
        assert_eq!(db.record(jobs.available).await.state, JobState::Available, "{method}");
    }
    // The query of a POST is not the form.
    let answer = client.post(&format!("/confirm?{form}"), "").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    for path in ["", "/jobs", "/queues", "/help"] {
        assert_eq!(client.post(path, &form).await.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    assert_eq!(db.record(jobs.available).await.state, JobState::Available);
    let head = client.send(Method::HEAD, "/jobs", "", &[]).await;
    assert_eq!((head.status, head.body.as_str()), (StatusCode::OK, ""));
}

async fn too_much_is_refused_at_once(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let begun = Instant::now();
    let long = "x".repeat(30_000);
    for path in [
        format!("/jobs?kind={long}"),
        format!("/jobs?q={long}"),
        format!("/jobs?{long}"),
        format!("/jobs?q={}", "kind%3Ax+".repeat(6000)),
        format!("/jobs?q=args.{}%3A1", "a.".repeat(10_000)),
        format!("/queues?name={long}&{long}"),
        format!("/confirm?action={long}"),
        format!("/confirm?action=retry{}", "&id=1".repeat(6_000)),
        format!("/confirm?action=retry{}", (0..5000).map(|id| format!("&id={id}")).collect::<String>()),
        format!("/confirm?action=schedule-backfill&name=x&from={long}"),
        format!("/events?page={long}"),
    ] {
        let answer = client.get(&path).await;
        assert!(!answer.status.is_server_error(), "{}: {}", &path[..60], answer.status);
        assert!(answer.body.len() < 1_000_000, "{}: {} bytes", &path[..60], answer.body.len());
    }
    let answer = client.post("/confirm", &format!("action=cancel&id=1&x={}", "y".repeat(3_000_000))).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Each stream renders its page again and again, so their number is limited. The script asks for the page instead.
async fn the_number_of_event_streams_is_limited(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let mut open = Vec::new();
    let refused = loop {
        let response = client.begin(Method::GET, "/events?page=/help", "", &[]).await;
        if response.status() != StatusCode::OK {
            break response;
        }
        open.push(response);
        assert!(open.len() <= 1000, "there is no limit");
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(open.len() >= 50, "{}", open.len());
    // A stream that ends makes room for another one.
    drop(open.pop());
    assert_eq!(client.begin(Method::GET, "/events?page=/help", "", &[]).await.status(), StatusCode::OK);
}

/// Equality of a secret argument could otherwise be tried out value by value.
async fn secret_arguments_cannot_be_searched(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    for path in [
        "/jobs?q=args.card%3A4111-secret-card",
        "/jobs?q=args.card.x%3A4",
        "/confirm?action=retry&all=yes&filter=args.card%3A4111-secret-card",
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        answer.page().shows("card is a secret argument");
    }
    assert_eq!(client.get("/jobs?q=args.order%3A7").await.status, StatusCode::OK);
}

support::on_each_database! {
    odd_paths_are_not_found,
    headers_of_proxies_change_nothing,
    only_a_post_changes_something,
    too_much_is_refused_at_once,
    the_number_of_event_streams_is_limited,
    secret_arguments_cannot_be_searched,
}
