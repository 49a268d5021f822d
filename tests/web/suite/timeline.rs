//! The timeline of a job, its workers, and the times on pages.

use diesel_jobs::JobState;
use support::{Db, Running};

use crate::client::Client;
use crate::jobs::{Report, SendMail, registry};
use crate::seed::seed;

async fn of_two_things_at_one_time_the_later_one_stands_first(db: Db) {
    let id = db.enqueue(SendMail { to: "ada".to_owned() }).await;
    let client = Client::of(db.database());
    // The functions of SQL set the one before the other.
    for earlier in ["0", "1"] {
        db.execute(&match db.is_postgres() {
            true => format!("update jobs.ready set run_at = enqueued_at - {earlier} * interval '1 microsecond'"),
            false => format!("update jobs_job set run_at = enqueued_at - {earlier}"),
        })
        .await;
        let page = client.page(&format!("/jobs/{id}")).await;
        assert_eq!(page.texts("ol.timeline", "strong"), ["Due", "Enqueued"], "{earlier}");
    }
    db.execute(if db.is_postgres() {
        "update jobs.ready set run_at = enqueued_at + interval '1 h'"
    } else {
        "update jobs_job set run_at = enqueued_at + 3600000000"
    })
    .await;
    let page = client.page(&format!("/jobs/{id}")).await;
    assert_eq!(page.texts("ol.timeline", "strong"), ["Scheduled for", "Enqueued"]);
}

async fn a_worker_that_is_registered_is_named_by_its_machine(db: Db) {
    let id = db.enqueue(Report { day: "monday".to_owned() }).await;
    let client = Client::of(db.database());
    let worker = Running::start(db.worker(registry()));
    db.await_state(id, JobState::Retrying).await;
    let workers = db.database().operator.workers().await.unwrap();
    let process = workers[0].process();
    assert!(process.starts_with(&format!("process {} on ", std::process::id())), "{process}");
    let link = (process.clone(), "/admin/jobs/workers".to_owned());
    let page = client.page(&format!("/jobs/{id}")).await;
    assert_eq!(page.links("ol.timeline"), std::slice::from_ref(&link), "{}", page.text);
    page.hides(&workers[0].id.to_string());
    worker.stop().await;
    // It has deregistered, so only its id is known.
    let page = client.page(&format!("/jobs/{id}")).await;
    assert_eq!(page.links("ol.timeline"), []);
    page.shows(&format!("worker {}", workers[0].id));
}

async fn a_time_is_absolute_beside_relative_after_a_minute(db: Db) {
    let jobs = seed(&db).await;
    let page = Client::of(db.database()).page(&format!("/jobs/{}", jobs.scheduled)).await;
    let times: Vec<_> = page.all("time").filter(|time| time.attributes.contains_key("title")).collect();
    assert_eq!(times.len(), 2, "{}", page.text);
    // One is due in an hour, and the other one is the time of the enqueue.
    assert!(times[0].text.starts_with("in ") && times[0].text.ends_with(" UTC"), "{}", times[0].text);
    for time in times {
        let (exact, title) = (&time.attributes["datetime"], &time.attributes["title"]);
        assert!(exact.ends_with('Z') && title.ends_with(" UTC"), "{exact} {title}");
    }
    let overview = Client::of(db.database()).page("").await;
    overview.shows("Times are UTC.");
}

async fn the_title_of_the_tab_has_the_environment_and_the_state(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let operator = &db.database().operator;
    let title = async |path: &str| {
        let page = client.page(path).await;
        let title = page.all("title").next().unwrap().text.clone();
        // The script has it for pages that change while they are open.
        assert!(page.values("h1", "data-title").all(|kept| kept == title), "{path}: {title}");
        (title, page.values("h1", "data-title").count())
    };
    assert_eq!(title("").await, ("● no worker · Overview · Jobs".to_owned(), 1));
    // A worker of no environment starts with no environment only.
    let worker = Running::start(db.worker(registry()));
    support::until("a worker", async || operator.workers().await.unwrap().pop()).await;
    assert_eq!(title("").await, ("● 2 failing · Overview · Jobs".to_owned(), 1));
    worker.stop().await;
    operator.set_environment(Some("production"), "eve").await.unwrap();
    assert_eq!(title("/queues").await, ("Queues · production · Jobs".to_owned(), 0));
    let of_job = format!("/jobs/{}", jobs.discarded);
    let expected = format!("● discarded · Job {} · production · Jobs", jobs.discarded);
    assert_eq!(title(&of_job).await, (expected, 1));
    operator.pause_kind("charge", "eve", None).await.unwrap();
    assert_eq!(title("/kinds/one?name=charge").await, ("● paused · Kind charge · production · Jobs".to_owned(), 1));
    operator.freeze("zoe", "a move").await.unwrap();
    for path in ["/queues", "", &of_job] {
        let (title, _) = title(path).await;
        assert!(title.starts_with("● frozen · "), "{path}: {title}");
    }
}

support::on_each_database! {
    of_two_things_at_one_time_the_later_one_stands_first,
    a_worker_that_is_registered_is_named_by_its_machine,
    a_time_is_absolute_beside_relative_after_a_minute,
    the_title_of_the_tab_has_the_environment_and_the_state,
}
