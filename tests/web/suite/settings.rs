//! Queues, kinds, workers and schedules: what the pages show, and what they change.

use std::time::Duration;

use axum::http::StatusCode;
use diesel_jobs::operator::{Asked, JobFilter};
use diesel_jobs::schedule::CatchUp;
use diesel_jobs::schedule::NewSchedule;
use diesel_jobs::{JobState, NewJob};
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
    client.page(&format!("/confirm?action=worker-quiet&name={id}")).await.shows("from claiming jobs?");
    client.post("/confirm", &format!("action=worker-quiet&name={id}")).await;
    let worker_record = db.database().operator.workers().await.unwrap().pop().unwrap();
    assert_eq!((worker_record.asked, worker_record.asked_by.as_deref()), (Some(Asked::Quiet), Some("ada")));
    let page = client.page("/workers").await;
    page.shows("asked: quiet by ada");
    page.hides("draining");
    // As the worker does when it begins to stop.
    let mut heartbeat = db.database().storage.open_heartbeat(id).await.unwrap();
    assert!(heartbeat.beat(true, Duration::from_secs(30)).await.unwrap().is_some());
    client.page("/workers").await.shows("draining");
    worker.stop().await;
    // It is gone meanwhile.
    assert_eq!(client.get(&format!("/confirm?action=worker-stop&name={id}")).await.status, StatusCode::NOT_FOUND);
    client.post("/confirm", &format!("action=worker-stop&name={id}")).await.page().shows("no longer exists");
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
        ("", "2026-01-01+04:00", "Enter the time from which"),
    ] {
        let form = format!("action=schedule-backfill&name=nightly&from={from}&until={until}");
        let answer = client.post("/confirm", &form).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{form}");
        answer.page().shows(text);
    }
    assert_eq!(client.get("/confirm?action=schedule-pause&name=gone").await.status, StatusCode::NOT_FOUND);
}

async fn a_queue_is_drained(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    client.page("/queues/drain?queue=mail").await.shows("The queue is not paused");
    client.page("/confirm?action=queue-drain&name=mail").await.shows("Drain the queue mail?");
    let answer = client.post("/confirm", "action=queue-drain&name=mail&reason=a+move").await;
    assert_eq!(answer.headers["location"], "/admin/jobs/queues/drain?queue=mail");
    let page = client.page("/queues/drain?queue=mail").await;
    page.shows("The queue is drained.");
    page.shows("by ada: a move");
    // A job of it still runs.
    db.execute(if db.is_postgres() {
        "with moved as (delete from jobs.ready where queue = 'mail' returning *)
         insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, args)
         select id, run_at, enqueued_at, 1, 0, 1, 3, 0, '00000000-0000-7000-8000-000000000001', kind, queue, args from moved"
    } else {
        "update jobs_job set state = 'running', worker = '00000000-0000-7000-8000-000000000001', claimed_at = 1, lease = 1
         where queue = 'mail' and state = 'available'"
    })
    .await;
    let page = client.page("/queues/drain?queue=mail").await;
    page.shows("1 job still runs.");
    page.shows("send_mail");
    client.page("/queues").await.shows("1 job still runs");
    for wrong in ["", "?queue=", "?name=mail"] {
        assert_eq!(client.get(&format!("/queues/drain{wrong}")).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

async fn kinds_that_no_live_worker_knows_are_named(db: Db) {
    seed(&db).await;
    db.enqueue(NewJob::raw("forgotten", "{}")).await;
    let client = Client::of(db.database());
    client.page("/kinds").await.shows("No worker is alive.");
    let worker = Running::start(db.worker(registry()).queue("elsewhere", 1));
    until("a worker", async || db.database().operator.workers().await.unwrap().pop()).await;
    let page = client.page("/kinds").await;
    page.shows("Unknown kind: 1 job waits, and no live worker knows it.");
    // Other kinds are not marked, and the unknown kind stands first.
    assert_eq!(page.texts("tbody", "th").iter().filter(|text| text.contains("Unknown kind")).count(), 1);
    assert!(page.texts("tbody", "th")[0].starts_with("forgotten"));
    worker.stop().await;
}

async fn long_lists_of_names_are_bounded_and_searched(db: Db) {
    let jobs = (0..230).map(|number| {
        let mut job = NewJob::raw(format!("kind_{number}"), "{}");
        job.queue = format!("queue_{number}").into();
        job
    });
    db.conn().await.enqueue_all(jobs).await;
    let client = Client::of(db.database());
    for (path, more) in [("/queues", "30 more queues match"), ("/kinds", "30 more kinds match")] {
        let page = client.page(path).await;
        assert_eq!(page.texts("tbody", "th").len(), 200, "{path}");
        page.shows(more);
        assert_eq!(client.page(&format!("{path}?name=_22")).await.texts("tbody", "th").len(), 11, "{path}");
        client.page(&format!("{path}?name=nothing")).await.shows("has this in its name");
        assert_eq!(client.get(&format!("{path}?nam=x")).await.status, StatusCode::BAD_REQUEST);
    }
}

async fn a_schedule_is_added_changed_and_removed(db: Db) {
    let client = Client::of(db.database());
    let form = "action=schedule-add&name=hourly&kind=report&timezone=Europe%2FParis&catch_up=last&args=%7B%22day%22%3A%22x%22%7D&queue=slow";
    // The mistake is named, and the form has the values that were written.
    for (mistake, text) in [
        ("cron=every+hour", "every hour"),
        ("cron=", "The cron expression is missing."),
        ("cron=0+*+*+*+*&priority=high", "priority"),
        ("cron=0+*+*+*+*&max_attempts=0", "from 1 to 32767"),
    ] {
        let answer = client.post("/confirm", &format!("{form}&{mistake}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{mistake}");
        let page = answer.page();
        page.shows("Nothing was changed.");
        page.shows(text);
        for kept in ["hourly", "report", "Europe/Paris", "slow"] {
            assert!(page.values("input", "value").any(|value| value == kept), "{mistake}: {kept}");
        }
        page.shows("{\"day\":\"x\"}");
    }
    let add = format!("{form}&cron=0+*+*+*+*");
    assert_eq!(client.post("/confirm", &add).await.headers["location"], "/admin/jobs/schedules");
    let page = client.page("/schedules").await;
    for text in ["hourly", "Europe/Paris", "added by ada"] {
        page.shows(text);
    }
    // Another operator who adds the same one is told.
    let answer = client.post("/confirm", &add).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let page = answer.page();
    page.shows("The schedule hourly exists already: it enqueues jobs of kind report at 0 * * * * (Europe/Paris).");
    page.shows("To change when it ticks, press Change on the Schedules page.");
    assert!(page.values("input", "value").any(|value| value == "slow"), "what was written is kept");
    let other = client.post("/confirm", &format!("{form}&cron=30+*+*+*+*").replace("kind=report", "kind=charge")).await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST);
    let stored = db.database().operator.list_schedules().await.unwrap().0.remove(0);
    assert_eq!((stored.kind.as_str(), stored.expression.as_str()), ("report", "0 * * * *"), "it is as it was");

    let page = client.page("/confirm?action=schedule-change&name=hourly").await;
    assert!(page.values("input", "value").any(|value| value == "0 * * * *"));
    let answer =
        client.post("/confirm", "action=schedule-change&name=hourly&cron=30+*+*+*+*&timezone=UTC&catch_up=skip").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    let schedule = db.database().operator.list_schedules().await.unwrap().0.remove(0);
    assert_eq!((schedule.expression.as_str(), schedule.timezone.as_str()), ("30 * * * *", "UTC"));
    assert_eq!((schedule.catch_up, schedule.job.queue.as_deref()), (CatchUp::Skip, Some("slow")));

    assert_eq!(client.post("/confirm", "action=schedule-remove&name=hourly").await.status, StatusCode::SEE_OTHER);
    client.page("/schedules").await.shows("There are no schedules.");
    client.post("/confirm", "action=schedule-remove&name=hourly").await.page().shows("no longer exists");
}

async fn a_setting_that_cannot_be_stored_is_refused_with_what_was_written(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let long = "x".repeat(600);
    let answer = client.post("/confirm", &format!("action=queue-pause&name=mail&reason={long}")).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let page = answer.page();
    page.shows("The reason must not be longer than 500 characters.");
    assert!(page.values("input", "value").any(|value| value == long));
    client.page("/queues").await.hides("paused since");
}

support::on_each_database! {
    a_queue_is_drained,
    kinds_that_no_live_worker_knows_are_named,
    long_lists_of_names_are_bounded_and_searched,
    a_schedule_is_added_changed_and_removed,
    a_setting_that_cannot_be_stored_is_refused_with_what_was_written,
    a_queue_is_paused_with_a_reason_and_resumed,
    slots_of_a_queue_are_set_and_wrong_ones_refused,
    a_kind_is_paused_and_resumed,
    a_worker_is_shown_and_asked,
    a_schedule_is_triggered_paused_and_made_up,
}
