//! Queues, kinds, workers and schedules: what the pages show, and what they change.

use axum::http::StatusCode;
use diesel_jobs::storage::{Asked, JobFilter, NewSchedule};
use diesel_jobs::{CatchUp, JobState};
use support::{Db, Running, until};

use crate::client::Client;
use crate::jobs::registry;
use crate::seed::seed;

async fn a_queue_is_paused_with_a_reason_and_resumed(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("/confirm?action=queue-pause&name=mail").await;
    page.shows("Pause the queue mail?");
    assert!(page.values("input", "name").any(|name| name == "reason"));
    let answer = client.post("/confirm", "action=queue-pause&name=mail&reason=the+server+is+down").await;
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (StatusCode::SEE_OTHER, &"/admin/jobs/queues".parse().unwrap())
    );
    let page = client.page("/queues").await;
    page.shows("by ada: the server is down");
    assert!(page.values("button", "value").any(|value| value == "queue-resume"));
    // Another operator who is late sees what is.
    client.page("/confirm?action=queue-pause&name=mail").await.shows("There is nothing to do.");
    assert_eq!(
        client.post("/confirm", "action=queue-pause&name=mail&reason=again").await.status,
        StatusCode::SEE_OTHER
    );
    client.page("/queues").await.shows("the server is down");

    client.post("/confirm", "action=queue-resume&name=mail").await;
    client.page("/queues").await.hides("the server is down");
    let audit =
        db.number("select count(*) as number from jobs.audit where actor = 'ada' and target = 'queue mail'").await;
    assert_eq!(audit, 2);
}

async fn slots_of_a_queue_are_set_and_wrong_ones_refused(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    assert_eq!(client.post("/confirm", "action=queue-slots&name=mail&slots=7").await.status, StatusCode::SEE_OTHER);
    client.page("/queues").await.shows("7 in each worker");
    let page = client.page("/confirm?action=queue-slots&name=mail").await;
    assert!(page.values("input", "value").any(|value| value == "7"));
    for wrong in ["-1", "x", "10001", "7.5"] {
        let answer = client.post("/confirm", &format!("action=queue-slots&name=mail&slots={wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
        answer.page().shows("is not a number of slots");
    }
    client.post("/confirm", "action=queue-slots&name=mail&slots=").await;
    client.page("/queues").await.hides("in each worker");
}

async fn a_kind_is_paused_and_resumed(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    client.post("/confirm", "action=kind-pause&name=charge&reason=refunds+first").await;
    client.page("/kinds").await.shows("refunds first");
    client.post("/confirm", "action=kind-resume&name=charge").await;
    client.page("/kinds").await.hides("refunds first");
}

async fn a_worker_is_shown_and_asked(db: Db) {
    let worker = Running::start(db.worker(registry()));
    let client = Client::of(db.database());
    let id = until("a worker", async || db.database().operator.workers().await.unwrap().pop()).await.id;
    let page = client.page("/workers").await;
    for text in ["alive", "mail", "nothing"] {
        page.shows(text);
    }
    client.page(&format!("/confirm?action=worker-quiet&name={id}")).await.shows("claim nothing more?");
    client.post("/confirm", &format!("action=worker-quiet&name={id}")).await;
    let worker_record = db.database().operator.workers().await.unwrap().pop().unwrap();
    assert_eq!((worker_record.asked, worker_record.asked_by.as_deref()), (Some(Asked::Quiet), Some("ada")));
    client.page("/workers").await.shows("asked: quiet by ada");
    worker.stop().await;
    // It is gone meanwhile.
    assert_eq!(client.get(&format!("/confirm?action=worker-stop&name={id}")).await.status, StatusCode::NOT_FOUND);
    client.post("/confirm", &format!("action=worker-stop&name={id}")).await.page().shows("There is no worker");
    assert_eq!(client.get("/confirm?action=worker-stop&name=me").await.status, StatusCode::BAD_REQUEST);
}

async fn a_schedule_is_triggered_paused_and_made_up(db: Db) {
    let schedule = NewSchedule {
        name: "nightly".to_owned(),
        kind: "report".to_owned(),
        expression: "0 0 2 * * *".to_owned(),
        timezone: "Europe/Paris".to_owned(),
        catch_up: CatchUp::Skip,
        job: Default::default(),
    };
    db.database().operator.add_schedule(&schedule, "ada").await.unwrap();
    let client = Client::of(db.database());
    let page = client.page("/schedules").await;
    for text in ["nightly", "0 0 2 * * *", "Europe/Paris", "02:00:00"] {
        page.shows(text);
    }
    client.post("/confirm", "action=schedule-trigger&name=nightly").await.page().shows("A job of nightly is enqueued");
    client.post("/confirm", "action=schedule-pause&name=nightly&reason=holidays").await;
    client.page("/schedules").await.shows("holidays");
    client.post("/confirm", "action=schedule-resume&name=nightly").await;
    client.page("/schedules").await.hides("holidays");

    let days = "action=schedule-backfill&name=nightly&from=2026-01-01+00%3A00&until=2026-01-04+00%3A00";
    client.post("/confirm", days).await.page().shows("3 jobs of nightly enqueued");
    let jobs = db.database().operator.list_all(&JobFilter::default(), 10).await.unwrap();
    assert_eq!(jobs.len(), 4);
    assert!(jobs.iter().all(|job| job.kind == "report" && job.queue == "reports" && job.state == JobState::Available));
    for (from, until, text) in [
        ("yesterday", "2026-01-04+00:00", "is not a time"),
        ("2026-01-04+00:00", "2026-01-01+00:00", "must begin before it ends"),
        ("2026-01-01+03:00", "2026-01-01+04:00", "no tick in this time"),
        ("2001-01-01+00:00", "2026-01-01+04:00", "more than 1000 ticks"),
        ("", "2026-01-01+04:00", "Write from when on"),
    ] {
        let form = format!("action=schedule-backfill&name=nightly&from={from}&until={until}");
        let answer = client.post("/confirm", &form).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{form}");
        answer.page().shows(text);
    }
    assert_eq!(client.get("/confirm?action=schedule-pause&name=gone").await.status, StatusCode::NOT_FOUND);
}

support::on_each_database! {
    a_queue_is_paused_with_a_reason_and_resumed,
    slots_of_a_queue_are_set_and_wrong_ones_refused,
    a_kind_is_paused_and_resumed,
    a_worker_is_shown_and_asked,
    a_schedule_is_triggered_paused_and_made_up,
}
