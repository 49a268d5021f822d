//! No page, action, asset or event stream answers without the right, and none to another site.

use axum::http::{Method, StatusCode};
use diesel_jobs::rules::{Limit, Unique};
use diesel_jobs::{JobState, NewJob};
use support::Db;

use crate::client::Client;
use crate::seed::seed;

/// All routes, with something in the place of each parameter, and some addresses that are no routes.
fn addresses() -> Vec<(Method, String)> {
    let routes = diesel_jobs_web::routes();
    assert!(routes.len() > 5);
    let fill = |path: &str| path.replace("{id}", "1").replace("{name}", "dashboard.css").replace("{key}", "1");
    let mut addresses: Vec<_> =
        routes.into_iter().map(|(method, path)| (method.parse().unwrap(), fill(path))).collect();
    addresses[0].1 = String::new();
    // Everything else that a client may send.
    for path in ["/nothing", "/jobs/x/y", "/assets/", "/events?page=/jobs"] {
        addresses.push((Method::GET, path.to_owned()));
    }
    for method in [Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
        addresses.extend([(method.clone(), "/jobs".to_owned()), (method, "/confirm".to_owned())]);
    }
    addresses
}

async fn nothing_is_answered_without_the_right_to_read(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database()).with_rights("none");
    let form = format!("action=cancel&id={}", jobs.available);
    let page = Client::of(db.database()).page("").await;
    let assets =
        page.values("link", "href").map(|path| (Method::GET, path.trim_start_matches("/admin/jobs").to_owned()));
    for (method, path) in addresses().into_iter().chain(assets) {
        let answer = client.send(method.clone(), &path, &form, &[("sec-fetch-site", "same-origin")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {path}: {}", answer.body);
        assert!(answer.body.len() < 60, "{method} {path}: {}", answer.body);
        assert!(answer.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    }
    assert_eq!(db.record(jobs.available).await.state, JobState::Available);
}

async fn every_answer_has_the_headers_that_protect_it(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    for (method, path) in addresses().into_iter().filter(|(_, path)| !path.starts_with("/events")) {
        let answer = client.send(method.clone(), &path, "", &[("sec-fetch-site", "same-origin")]).await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{method} {path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{method} {path}");
        assert!(answer.headers.contains_key("cache-control"), "{method} {path}");
    }
}

async fn readers_may_change_nothing(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database()).with_rights("read");
    for (action, id) in [("cancel", jobs.available), ("retry", jobs.discarded)] {
        let form = format!("action={action}&id={id}");
        assert_eq!(client.get(&format!("/confirm?{form}")).await.status, StatusCode::FORBIDDEN);
        let answer = client.post("/confirm", &form).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        answer.page().shows(&format!("“{action}”"));
        // The pages do not offer it.
        let page = client.page(&format!("/jobs/{id}")).await;
        assert_eq!(page.all("button").count(), 0);
    }
    let page = client.page("/jobs").await;
    assert!(!page.values("input", "type").any(|kind| kind == "checkbox"));
    assert_eq!(db.record(jobs.available).await.state, JobState::Available);
    assert_eq!(db.record(jobs.discarded).await.state, JobState::Discarded);
}

/// Every action that a page can ask for needs a right, and readers have none.
async fn each_action_needs_its_right(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let forms = [
        ("retry", "action=retry&id=1"),
        ("run now", "action=run-now&id=1"),
        ("cancel", "action=cancel&id=1"),
        ("discard", "action=discard&id=1"),
        ("delete", "action=delete&id=1"),
        ("reprioritise", "action=reprioritise&id=1&priority=1"),
        ("move", "action=move&id=1&queue=q"),
        ("copy", "action=copy&id=1"),
        ("retry", "action=retry&all=yes&filter=kind%3Acharge"),
        ("delete", "action=queue-purge&name=mail&name_typed=mail"),
        ("pause", "action=queue-pause&name=mail"),
        ("pause", "action=queue-resume&name=mail"),
        ("pause", "action=queue-drain&name=mail"),
        ("schedules", "action=schedule-add&name=x&kind=report&cron=0+*+*+*+*"),
        ("schedules", "action=schedule-change&name=x"),
        ("schedules", "action=schedule-reset&name=x"),
        ("schedules", "action=schedule-remove&name=x"),
        ("slots", "action=queue-slots&name=mail&slots=3"),
        ("limits", "action=limit-set&name=stripe&most=3"),
        ("limits", "action=limit-reset&name=stripe"),
        ("limits", "action=sequence-skip&name=orders&key=%5B7%5D"),
        ("limits", "action=release-permit&id=1"),
        ("limits", "action=release-key&id=1"),
        ("pause", "action=kind-pause&name=charge"),
        ("pause", "action=kind-resume&name=charge"),
        ("workers", "action=worker-stop&name=018f4c1e-0000-7000-8000-000000000001"),
        ("schedules", "action=schedule-trigger&name=x"),
        ("operations", "action=operation-cancel&name=1"),
    ];
    for (right, form) in forms {
        for other in ["read", if right == "retry" { "cancel" } else { "retry" }] {
            let reader = client.with_rights(other);
            assert_eq!(reader.get(&format!("/confirm?{form}")).await.status, StatusCode::FORBIDDEN, "{form}");
            assert_eq!(reader.post("/confirm", form).await.status, StatusCode::FORBIDDEN, "{form}");
        }
        assert_ne!(client.with_rights(right).post("/confirm", form).await.status, StatusCode::FORBIDDEN, "{form}");
    }
}

async fn one_right_does_not_include_another(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database()).with_rights("retry");
    let answer = client.post("/confirm", &format!("action=cancel&id={}", jobs.available)).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let answer = client.post("/confirm", &format!("action=retry&id={}", jobs.discarded)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(db.record(jobs.available).await.state, JobState::Available);
    assert_eq!(db.record(jobs.discarded).await.state, JobState::Available);
}

async fn a_form_from_another_site_is_refused(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let form = format!("action=cancel&id={}", jobs.available);
    let foreign: [&[(&str, &str)]; 7] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("origin", "https://jobs.example")],
        &[("origin", "https://evil.example")],
        &[("origin", "https://jobs.example.evil.example")],
        &[("origin", "https://jobs.example:444")],
        &[("origin", "null")],
    ];
    for headers in foreign {
        let answer = client.send(Method::POST, "/confirm", &form, headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert_eq!(db.record(jobs.available).await.state, JobState::Available, "{headers:?}");
    }
    // A browser without fetch metadata sends the origin.
    let own = [("origin", "https://jobs.example")];
    assert_eq!(client.send(Method::POST, "/confirm", &form, &own).await.status, StatusCode::OK);
    assert_eq!(db.record(jobs.available).await.state, JobState::Cancelled);
}

/// What flow control offers is not shown to readers, and not done for another site.
async fn limits_are_not_changed_by_readers_and_other_sites(db: Db) {
    let limited = NewJob::raw("charge", "{}").rule(Limit::new("stripe", 1)).unwrap();
    let id = db.enqueue(limited.unique(Unique::new()).unwrap()).await;
    let client = Client::of(db.database());
    let reader = client.with_rights("read");
    for path in ["/limits".to_owned(), format!("/jobs/{id}")] {
        assert_eq!(reader.page(&path).await.all("button").count(), 0, "{path}");
        assert!(client.page(&path).await.all("button").count() > 0, "{path}");
    }
    for form in ["action=limit-set&name=stripe&most=3".to_owned(), format!("action=release-key&id={id}")] {
        let headers = [("sec-fetch-site", "cross-site")];
        let answer = client.send(Method::POST, "/confirm", &form, &headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{form}");
    }
    let operator = &db.database().operator;
    assert!(operator.limit_settings().await.unwrap().is_empty() && operator.unique_key(id).await.unwrap().is_some());
}

support::on_each_database! {
    limits_are_not_changed_by_readers_and_other_sites,
    nothing_is_answered_without_the_right_to_read,
    every_answer_has_the_headers_that_protect_it,
    readers_may_change_nothing,
    each_action_needs_its_right,
    one_right_does_not_include_another,
    a_form_from_another_site_is_refused,
}
