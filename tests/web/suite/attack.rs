//! What an attacker sends: odd paths, headers that proxies set, other methods, too much of everything, and many event
//! streams.

use axum::http::{Method, StatusCode};
use diesel_jobs::{JobState, NewJob};
use support::Db;

use crate::client::{Client, dashboard};
use crate::jobs::registry;
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

async fn too_much_is_refused(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
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
}

/// Each stream renders its page repeatedly, so their number is limited. The script asks for the page instead.
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

/// PostgreSQL fails if it is asked for a text with a NUL character. No page asks it.
async fn a_nul_character_is_refused_wherever_it_stands(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    // So that there is a last sample.
    client.page("").await;
    let queries = [
        "?range=%00",
        "?%00=1h",
        "/jobs?kind=a%00b",
        "/jobs?error=%00",
        "/jobs?q=kind%3Aa%00",
        "/jobs?before=%00",
        "/queues?name=%00",
        "/queues/drain?queue=%00",
        "/kinds?name=%00",
        "/limits?after=a%00&key=b",
        "/limits?after=a&key=%00",
        "/operations?before=%00",
        "/confirm?action=queue-pause&name=a%00",
        "/confirm?action=sequence-skip&name=a&key=%00",
        "/confirm?action=retry&all=yes&filter=kind%3A%00",
        "/confirm?action=%00",
    ];
    for path in queries {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.body);
        let page = answer.page();
        page.shows("contains a NUL character (%00)");
        page.hides("The last sample");
    }
    for form in [
        "action=queue-pause&name=a%00",
        "action=queue-pause&name=mail&reason=%00",
        "action=sequence-skip&name=orders&key=%00",
        "action=limit-set&name=%00&most=1",
        "action=schedule-add&name=a%00&kind=b&cron=0+*+*+*+*",
        "action=schedule-trigger&name=%00",
        "action=kind-resume&name=%00",
        "action=queue-purge&name=mail&name_typed=%00",
        "action=cancel&all=yes&filter=kind%3A%00",
    ] {
        let answer = client.post("/confirm", form).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{form}: {}", answer.body);
        answer.page().shows("contains a NUL character (%00)");
    }
    assert_eq!(client.get("/jobs/%00").await.status, StatusCode::NOT_FOUND);
    // What the storage refuses without asking the database says nothing about the database either.
    let long = "x".repeat(300);
    let answer = client.post("/confirm", &format!("action=move&id={}&queue={long}", jobs.scheduled)).await;
    answer.page().hides("The last sample");
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
    // A list is hidden as a whole, so its places cannot be searched either.
    let list = db.enqueue(NewJob::raw("charge", r#"[7, "4111-secret-card"]"#)).await;
    client.page(&format!("/jobs/{list}")).await.hides("4111");
    for q in ["args.1%3A4111-secret-card", "args.-1%3A4111-secret-card", "kind%3Acharge+args.01%3A4111-secret-card"] {
        for path in [format!("/jobs?q={q}"), format!("/confirm?action=cancel&all=yes&filter={q}")] {
            let answer = client.get(&path).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
            answer.page().shows("may be the place of a secret argument of the kind charge");
        }
        let answer = client.post("/confirm", &format!("action=cancel&all=yes&filter={q}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{q}");
    }
    let found = client.page("/jobs?q=args.order%3A7").await;
    assert_eq!(found.texts("tbody", "th").len(), 1);
}

/// Only a program that knows a kind knows which of its arguments are secret. So a dashboard without the kind hides all.
async fn arguments_of_unknown_kinds_are_hidden_and_not_searched(db: Db) {
    let id = db.enqueue(NewJob::raw("login", r#"{"user": "ada", "password": "hunter2"}"#)).await;
    let client = Client::of(db.database());
    let page = client.page(&format!("/jobs/{id}")).await;
    for text in ["password", "[redacted]", "does not know which arguments are secret, and hides all"] {
        page.shows(text);
    }
    page.hides("hunter2");
    page.hides("ada\"");
    let found = async |client: &Client, q: &str| client.page(&format!("/jobs?q={q}")).await.texts("tbody", "th").len();
    assert_eq!(found(&client, "args.password%3Ahunter2").await, 0, "only known kinds are searched");
    let answer = client.get("/jobs?q=kind%3Alogin+args.password%3Ahunter2").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    answer.page().shows("does not know the kind login");
    // The number of a tab says as little.
    client.page("/jobs?q=args.password%3Ahunter2").await.shows("all0");
    // The application may know better.
    let open = Client::on(dashboard(db.database().clone(), registry()).show_arguments_of_unknown_kinds());
    let page = open.page(&format!("/jobs/{id}")).await;
    page.shows("hunter2");
    page.shows("does not know which arguments are secret, and shows all");
    assert_eq!(found(&open, "args.password%3Ahunter2").await, 1);
    assert_eq!(found(&open, "kind%3Alogin+args.password%3Ahunter2").await, 1);
}

support::on_each_database! {
    odd_paths_are_not_found,
    headers_of_proxies_change_nothing,
    only_a_post_changes_something,
    too_much_is_refused,
    the_number_of_event_streams_is_limited,
    a_nul_character_is_refused_wherever_it_stands,
    secret_arguments_cannot_be_searched,
    arguments_of_unknown_kinds_are_hidden_and_not_searched,
}
