//! A server that is stopped, one that takes no writes, and two operators at once.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use axum::http::StatusCode;
use cluster::{Own, Server, Stop};
use diesel_jobs::{Database, JobId, JobState, NewJob};
use support::{Db, until};
use tempfile::TempDir;

use crate::client::Client;
use crate::seed::seed;

/// The directory of a server. The server's user must be able to enter it, or the server's files are elsewhere.
fn directory() -> TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap()
}

#[tokio::test]
async fn while_the_server_is_stopped_the_last_sample_is_shown() {
    let dir = directory();
    let server = Own::at(dir.path()).unwrap();
    server.prepare().unwrap();
    let port = server.launch(None, "").unwrap();
    let database = Database::open(&Server::url(port), 0).await.unwrap();
    database.migrator.up().await.unwrap();
    let mut job = NewJob::raw("send_mail", r#"{"to":"ada"}"#);
    job.queue = "mail".into();
    database.operator.enqueue(&[job], "import", "ada").await.unwrap();
    let client = Client::of(&database);
    client.page("").await.shows("mail");

    server.halt(Stop::Immediate).unwrap();
    for path in ["", "/jobs", "/queues", "/jobs/1", "/confirm?action=cancel&id=1", "/doctor"] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let page = answer.page();
        page.shows("The database cannot be reached");
        page.shows("The last sample");
        page.shows("mail");
    }
    let answer = client.post("/confirm", "action=cancel&id=1").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);

    server.launch(Some(port), "").unwrap();
    until("the page", async || (client.get("").await.status == StatusCode::OK).then_some(())).await;
    assert_eq!(database.operator.show(JobId(1)).await.unwrap().unwrap().0.state, JobState::Available);

    // A setting of the server alone. The sessions of workers override it, and people must not.
    server.halt(Stop::Fast).unwrap();
    server.launch(Some(port), "default_transaction_read_only = on\n").unwrap();
    let cautious = Client::of(&Database::open(&Server::url(port), 0).await.unwrap());
    let page = cautious.page("/jobs/1").await;
    page.shows("default_transaction_read_only is on for the server, this database or this role. Actions are off.");
    assert_eq!(page.all("button").count(), 0);
    let answer = cautious.post("/confirm", "action=cancel&id=1").await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(database.operator.show(JobId(1)).await.unwrap().unwrap().0.state, JobState::Available);

    // As a standby the server takes no writes. It has no primary to follow.
    server.halt(Stop::Fast).unwrap();
    std::fs::write(server.home().join("data/standby.signal"), "").unwrap();
    server.launch(Some(port), "").unwrap();
    let page = until("the page", async || {
        let answer = client.get("/jobs").await;
        (answer.status == StatusCode::OK).then(|| answer.page())
    })
    .await;
    page.shows("The database is a standby, which takes no writes. Actions are off.");
    assert_eq!(page.values("button", "name").count(), 0);
    let answer = client.post("/confirm", "action=cancel&id=1").await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.page().shows("Nothing was changed.");
    for path in [
        "",
        "/jobs/1",
        "/queues",
        "/kinds",
        "/limits",
        "/workers",
        "/schedules",
        "/failures",
        "/operations",
        "/doctor",
        "/help",
    ] {
        assert_eq!(client.get(path).await.status, StatusCode::OK, "{path}");
    }
}

async fn a_role_that_may_not_write_has_no_actions(db: Db) {
    let jobs = seed(&db).await;
    db.execute("do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$").await;
    let client = Client::of(&db.again().await);
    let page = client.page(&format!("/jobs/{}", jobs.available)).await;
    page.shows("default_transaction_read_only is on for the server, this database or this role. Actions are off.");
    assert_eq!(page.all("button").count(), 0);
    let answer = client.post("/confirm", &format!("action=cancel&id={}", jobs.available)).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(db.record(jobs.available).await.state, JobState::Available);
}

/// Of two operators who do the same at once, each is told what happened, and the job is changed once.
async fn two_operators_at_once_are_both_answered(db: Db) {
    seed(&db).await;
    let mut conn = db.conn().await;
    let ids = conn.enqueue_all((0..40).map(|n| NewJob::raw("send_mail", format!("{{\"to\":\"{n}\"}}")))).await;
    let form: String = ids.iter().map(|id| format!("&id={id}")).collect();
    let (ada, eve) = (Client::of(db.database()), Client::of(&db.again().await));
    let (cancel, discard) = (format!("action=cancel{form}"), format!("action=discard{form}"));
    let (one, other) = tokio::join!(ada.post("/confirm", &cancel), eve.post("/confirm", &discard));
    assert_eq!((one.status, other.status), (StatusCode::OK, StatusCode::OK), "{} {}", one.body, other.body);
    let done = |answer: &crate::client::Answer| -> usize {
        let title = answer.page().texts("main", "h1").remove(0);
        title.split(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(done(&one) + done(&other), 40);
    let cancelled = db.number("select count(*) as number from jobs.finished where state = 2").await;
    assert_eq!(usize::try_from(cancelled).unwrap(), done(&one) + 1, "one was cancelled before");
}

support::on_postgres! { a_role_that_may_not_write_has_no_actions, two_operators_at_once_are_both_answered }
