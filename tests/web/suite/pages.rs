//! Each page, under a prefix, on both databases.

use axum::http::StatusCode;
use diesel_jobs::rules::Limit;
use diesel_jobs::{JobState, NewJob};
use diesel_jobs_web::Part;
use support::Db;

use crate::client::{Client, PREFIX, dashboard};
use crate::jobs::registry;
use crate::seed::{CARD, seed};

async fn the_overview_counts_the_jobs_of_each_queue(db: Db) {
    seed(&db).await;
    let page = Client::of(db.database()).page("").await;
    for text in ["Overview", "billing", "mail", "reports", "Due", "No worker is alive"] {
        page.shows(text);
    }
    assert!(page.values("a", "href").any(|href| href == "/admin/jobs/queues/one?name=billing"));
}

async fn the_limits_name_full_keys_and_the_jobs_that_have_their_permits(db: Db) {
    let client = Client::of(db.database());
    let page = client.page("/limits").await;
    page.shows("No job has a limit now.");
    page.shows("No key holds jobs back.");
    let limited = |customer: &str| {
        let job = NewJob::raw("charge", "{}").rule(Limit::new("stripe", 1).key(customer)).unwrap();
        db.enqueue(job)
    };
    let first = limited("ada").await;
    let held = limited("ada").await;
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    for number in 0..60 {
        limited(&format!("x<b>{number:02}")).await;
    }
    let page = client.page("/limits").await;
    for text in ["stripe", "1 of 1", "full", "ada", "x<b>00"] {
        page.shows(text);
    }
    assert!(page.values("a", "href").any(|href| href == format!("/admin/jobs/jobs/{first}")));
    let next = page.values("a", "href").find(|href| href.contains("/limits?after=")).unwrap().to_owned();
    client.page(next.strip_prefix(PREFIX).unwrap()).await.shows("x<b>59");
    assert_eq!(client.get("/limits?name=x").await.status, StatusCode::BAD_REQUEST);
    let overview = client.page("").await;
    assert!(overview.values("a", "href").any(|href| href == "/admin/jobs/limits"));
    let list = client.page("/jobs?state=held").await;
    list.shows(&held.to_string());
    assert!(!list.values("a", "href").any(|href| href == format!("/admin/jobs/jobs/{first}")));
}

async fn the_list_has_tabs_and_filters(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("/jobs").await;
    for (id, state) in [
        (jobs.completed, "completed"),
        (jobs.discarded, "discarded"),
        (jobs.retrying, "retrying"),
        (jobs.scheduled, "scheduled"),
        (jobs.available, "available"),
        (jobs.cancelled, "cancelled"),
    ] {
        page.shows(&id.to_string());
        let tab = client.page(&format!("/jobs?state={state}")).await;
        let listed: Vec<_> =
            tab.values("input", "aria-label").filter(|label| label.starts_with("Select job ")).collect();
        assert_eq!(listed, [format!("Select job {id}")], "{state}");
    }
    let page = client.page("/jobs?queue=mail&kind=send_mail&state=scheduled").await;
    page.shows("newsletter");
    // The filters are in the form again, and in the tabs.
    assert!(page.values("input", "value").any(|value| value == "send_mail"));
    assert!(page.values("a", "href").any(|href| href.contains("kind=send_mail") && href.contains("state=running")));
}

async fn the_list_leads_to_kinds_queues_and_tags_and_shows_some_arguments(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("/jobs").await;
    let links = page.links("tbody");
    for (text, path) in [
        ("send_mail", "/kinds/one?name=send_mail"),
        ("billing", "/queues/one?name=billing"),
        ("newsletter", "/jobs?state=scheduled&tag=newsletter"),
    ] {
        let link = (text.to_owned(), format!("{PREFIX}{path}"));
        assert!(links.contains(&link), "{link:?}: {links:?}");
        client.page(path).await.shows(text);
    }
    let tagged = client.page("/jobs?state=scheduled&tag=newsletter").await;
    assert_eq!(tagged.texts("tbody", "th"), [jobs.scheduled.to_string()]);
    let excerpt = |page: &crate::html::Page| -> Vec<String> {
        let of_row =
            page.all("span").filter(|span| span.attributes.get("class").is_some_and(|it| it.contains("excerpt")));
        of_row.map(|span| span.text.clone()).collect()
    };
    let shown = excerpt(&tagged);
    assert!(shown.len() == 1 && shown[0].contains("\"to\"") && shown[0].contains("eve"), "{shown:?}");
    // Secret arguments are none of them, and a long text is cut.
    assert!(excerpt(&page).iter().any(|text| text.contains("[redacted]")), "{:?}", excerpt(&page));
    let long = db.enqueue(crate::jobs::SendMail { to: "é".repeat(500) }).await;
    let shown = excerpt(&client.page(&format!("/jobs?q=id:{long}")).await);
    assert!(shown[0].ends_with('…') && shown[0].chars().count() < 200, "{shown:?}");
    let none = db.enqueue(NewJob::raw("report", "{}")).await;
    assert_eq!(excerpt(&client.page(&format!("/jobs?q=id:{none}")).await), [""; 0]);
}

async fn the_page_of_a_job_tells_its_story(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page(&format!("/jobs/{}", jobs.completed)).await;
    for text in ["Enqueued", "Completed", "sent to ada", "\"to\": \"ada\"", "1 of 2: connected"] {
        page.shows(text);
    }
    let page = client.page(&format!("/jobs/{}", jobs.retrying)).await;
    for text in ["Attempt 1 failed", "there are no figures of monday", "Next attempt"] {
        page.shows(text);
    }
}

async fn secret_arguments_stand_on_no_page(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page(&format!("/jobs/{}", jobs.discarded)).await;
    page.shows("[redacted]");
    page.shows("the bank refused order 7");
    for path in [format!("/jobs/{}", jobs.discarded), format!("/jobs/{}", jobs.available), "/jobs".into(), "".into()] {
        let answer = client.get(&path).await;
        assert!(!answer.body.contains(CARD), "{path}");
    }
    let answer = client.get(&format!("/confirm?action=retry&id={}", jobs.discarded)).await;
    assert!(answer.status == StatusCode::OK && !answer.body.contains(CARD));
}

async fn the_application_says_what_is_shown(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::on(dashboard(db.database().clone(), registry()).redact(|job, part, text| match part {
        Part::Output => format!("\"hidden {}\"", job.kind),
        Part::Failure => "no details".to_owned(),
        _ => text.replace("ada", "***"),
    }));
    let page = client.page(&format!("/jobs/{}", jobs.completed)).await;
    page.shows("hidden send_mail");
    page.hides("ada\"");
    for path in ["/jobs".to_owned(), format!("/jobs/{}", jobs.retrying)] {
        let page = client.page(&path).await;
        page.shows("no details");
        page.hides("figures of monday");
    }
}

async fn assets_are_found_by_the_names_on_the_page_and_kept(db: Db) {
    let client = Client::of(db.database());
    let page = client.page("").await;
    let found: Vec<String> = page
        .values("link", "href")
        .chain(page.values("script", "src"))
        .map(|path| path.strip_prefix(PREFIX).unwrap().to_owned())
        .collect();
    assert_eq!(found.len(), 3, "{found:?}");
    for path in found {
        let answer = client.get(&path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.headers["cache-control"], "private, max-age=31536000, immutable");
    }
    assert_eq!(client.get("/assets/dashboard-0000000000000000.css").await.status, StatusCode::NOT_FOUND);
}

async fn an_action_is_asked_for_and_then_done(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let form = format!("action=retry&id={}&id={}", jobs.discarded, jobs.cancelled);
    let page = client.page(&format!("/confirm?{form}")).await;
    page.shows("Retry 2 jobs?");
    assert_eq!(page.values("form", "method").collect::<Vec<_>>(), ["post"]);
    // Asking changes nothing.
    assert_eq!(db.record(jobs.discarded).await.state, JobState::Discarded);

    let answer = client.post("/confirm", &form).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.page().shows("2 jobs");
    for id in [jobs.discarded, jobs.cancelled] {
        assert_eq!(db.record(id).await.state, JobState::Available);
    }
}

async fn what_moved_meanwhile_is_said(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let form = format!("action=cancel&id={}&id={}", jobs.available, jobs.scheduled);
    client.page(&format!("/confirm?{form}")).await.shows("Cancel 2 jobs?");
    // Another operator is faster.
    assert_eq!(client.post("/confirm", &format!("action=cancel&id={}", jobs.available)).await.status, StatusCode::OK);
    let answer = client.post("/confirm", &form).await;
    assert_eq!(answer.status, StatusCode::OK);
    let page = answer.page();
    page.shows("1 job");
    page.shows(&format!("Job {} is now cancelled", jobs.available));
    // Asked again, the page says that there is nothing left to do.
    let page = client.page(&format!("/confirm?{form}")).await;
    page.shows("There is nothing to do.");
    assert_eq!(page.all("form").count(), 0);
}

async fn the_page_of_a_waiting_job_says_why_it_does_not_run(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let at = format!("/jobs/{}", jobs.available);
    client.page(&at).await.shows("No worker is alive.");
    let operator = &db.database().operator;
    operator.pause_queue("billing", "eve", Some("the bank is down")).await.unwrap();
    operator.pause_kind("charge", "bob", None).await.unwrap();
    operator.freeze("zoe", "a move").await.unwrap();
    let page = client.page(&at).await;
    for text in
        ["Queue billing is paused", "the bank is down", "Kind charge is paused", "by bob", "The database is frozen"]
    {
        page.shows(text);
    }
    // A job that has ended needs no reason.
    client.page(&format!("/jobs/{}", jobs.completed)).await.hides("Why it does not run");
}

/// The reasons repeat the newest failure. It must be what may be shown.
async fn why_a_job_does_not_run_is_redacted(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::on(
        dashboard(db.database().clone(), registry())
            .redact(|_, part, text| if part == Part::Failure { "no details".to_owned() } else { text }),
    );
    let page = client.page(&format!("/jobs/{}", jobs.retrying)).await;
    page.shows("Its last attempt failed");
    page.shows("no details");
    page.hides("figures of monday");
}

async fn each_tab_has_its_number(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let tabs = async |path: &str| client.page(path).await.texts("nav.tabs", "a");
    let all = tabs("/jobs").await;
    let expected = [
        "all6",
        "available1",
        "scheduled1",
        "retrying1",
        "held0",
        "running0",
        "completed1",
        "cancelled1",
        "discarded1",
    ];
    assert_eq!(all, expected);
    assert_eq!(tabs("/jobs?state=discarded").await, expected);
    let of_kind = [
        "all2",
        "available1",
        "scheduled0",
        "retrying0",
        "held0",
        "running0",
        "completed0",
        "cancelled0",
        "discarded1",
    ];
    assert_eq!(tabs("/jobs?kind=charge&state=available").await, of_kind);
    // A filter that reads more than the row of a job is counted for the open tab.
    let of_error =
        ["all1", "available", "scheduled", "retrying", "held", "running", "completed", "cancelled", "discarded"];
    assert_eq!(tabs("/jobs?error=figures").await, of_error);
}

async fn the_page_of_a_job_names_its_trace(db: Db) {
    let jobs = seed(&db).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let table = if db.is_postgres() { "jobs.ready" } else { "jobs_job" };
    db.execute(&format!(
        "update {table} set traceparent = '00-{trace}-b7ad6b7169203331-01' where id = {}",
        jobs.available
    ))
    .await;
    let client = Client::of(db.database());
    client.page(&format!("/jobs/{}", jobs.available)).await.shows(trace);
    client.page(&format!("/jobs/{}", jobs.completed)).await.hides("Trace");
}

async fn a_slash_at_the_end_leads_to_the_page(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let id = jobs.completed;
    for (path, target) in [
        ("/jobs/".to_owned(), "/admin/jobs/jobs".to_owned()),
        ("/jobs/?state=running".to_owned(), "/admin/jobs/jobs?state=running".to_owned()),
        (format!("/jobs/{id}/"), format!("/admin/jobs/jobs/{id}")),
        ("/queues/drain/?queue=q".to_owned(), "/admin/jobs/queues/drain?queue=q".to_owned()),
    ] {
        let answer = client.get(&path).await;
        assert_eq!(answer.status, StatusCode::PERMANENT_REDIRECT, "{path}");
        assert_eq!(answer.headers["location"], target.as_str(), "{path}");
    }
    // The path of the dashboard itself.
    for path in ["", "/", "/?range=24h"] {
        client.page(path).await.shows("Overview");
    }
    // Nothing else is sent anywhere.
    for path in [
        "//evil.example/",
        "/evil.example/",
        "/jobs//",
        "/assets/",
        "/nothing/",
        "/jobs/..%2f..%2fx/",
        "/%2fevil.example/",
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(!answer.headers.contains_key("location"), "{path}");
    }
}

async fn all_that_match_are_changed_by_an_operation(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    // Conditions under another name are not taken for none.
    for form in ["action=cancel&all=yes&q=kind%3Acharge", "action=cancel&all=yes&kind=charge", "action=delete&all=yes"]
    {
        let answer = client.post("/confirm", form).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{form}");
        answer.page().shows("The form has no filter.");
    }
    assert_eq!(db.record(jobs.available).await.state, JobState::Available);
    let form = "action=cancel&all=yes&filter=kind%3Acharge";
    let page = client.page(&format!("/confirm?{form}")).await;
    page.shows("Cancel 1 job?");
    page.shows("Jobs that are enqueued from now on are left alone.");
    assert_eq!(db.record(jobs.available).await.state, JobState::Available, "asking changes nothing");
    let answer = client.post("/confirm", form).await;
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (StatusCode::SEE_OTHER, &"/admin/jobs/operations".parse().unwrap())
    );
    client.page("/operations").await.shows("kind:charge");
    while db.database().operator.step_operation(None, 100).await.unwrap().is_some() {}
    assert_eq!(db.record(jobs.available).await.state, JobState::Cancelled);
    assert_eq!(db.record(jobs.scheduled).await.state, JobState::Scheduled);
    let page = client.page("/operations").await;
    page.shows("done");
    page.shows("ada");
    client.page("/confirm?action=operation-cancel&name=1").await.shows("There is nothing to do.");
    assert_eq!(client.get("/confirm?action=operation-cancel&name=99").await.status, StatusCode::NOT_FOUND);
}

async fn jobs_are_only_deleted_if_the_name_is_typed(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("/confirm?action=queue-purge&name=billing").await;
    page.shows("Delete 1 job?");
    page.shows("Type billing to confirm");
    for typed in ["", "&name_typed=mail"] {
        let answer = client.post("/confirm", &format!("action=queue-purge&name=billing{typed}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        answer.page().shows("Nothing was deleted");
    }
    assert_eq!(db.number("select count(*) as number from jobs.operation").await, 0);
    let answer = client.post("/confirm", "action=queue-purge&name=billing&name_typed=billing").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    while db.database().operator.step_operation(None, 100).await.unwrap().is_some() {}
    assert!(db.database().operator.show(jobs.available).await.unwrap().is_none());
    // Ended jobs of the queue stay.
    assert_eq!(db.record(jobs.discarded).await.state, JobState::Discarded);
    let everything = client.page("/confirm?action=delete&all=yes&filter=").await;
    everything.shows("Type delete to confirm");
}

async fn failures_are_grouped_and_a_group_is_retried(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("/failures").await;
    page.shows("there are no figures of monday");
    let filter = page.values("input", "value").find(|value| value.contains("kind:charge")).unwrap().to_owned();
    let query: String = filter.bytes().map(|byte| format!("%{byte:02X}")).collect();
    client.page(&format!("/jobs?q={query}")).await.shows(&jobs.discarded.to_string());
    let form = format!("action=retry&all=yes&filter={query}");
    client.page(&format!("/confirm?{form}")).await.shows("Retry 1 job?");
    assert_eq!(client.post("/confirm", &form).await.status, StatusCode::SEE_OTHER);
    while db.database().operator.step_operation(None, 100).await.unwrap().is_some() {}
    assert_eq!(db.record(jobs.discarded).await.state, JobState::Available);
}

async fn jobs_are_moved_reprioritised_copied_and_deleted(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    let id = jobs.scheduled;
    client.post("/confirm", &format!("action=move&id={id}&queue=slow")).await.page().shows("1 job: moved");
    client.post("/confirm", &format!("action=reprioritise&id={id}&priority=7")).await.page().shows("another priority");
    let record = db.record(id).await;
    assert_eq!((record.queue.as_str(), record.priority), ("slow", 7));
    for wrong in ["action=reprioritise&priority=x", "action=move&queue="] {
        assert_eq!(
            client.post("/confirm", &format!("{wrong}&id={id}")).await.status,
            StatusCode::BAD_REQUEST,
            "{wrong}"
        );
    }
    let answer = client.post("/confirm", &format!("action=copy&id={}", jobs.completed)).await;
    let copy =
        answer.page().values("a", "href").find_map(|href| href.strip_prefix("/admin/jobs/jobs/").map(str::to_owned));
    assert_ne!(copy.unwrap(), jobs.completed.to_string());
    client.post("/confirm", &format!("action=delete&id={}", jobs.cancelled)).await.page().shows("1 job: deleted");
    assert_eq!(client.get(&format!("/jobs/{}", jobs.cancelled)).await.status, StatusCode::NOT_FOUND);
    client.page("/operations").await.shows("ada");
}

async fn the_list_is_read_page_by_page(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let (mut path, mut seen) = (Some("/jobs?limit=2".to_owned()), Vec::new());
    while let Some(at) = path {
        let page = client.page(&at).await;
        seen.extend(
            page.values("input", "aria-label").filter(|label| label.starts_with("Select job ")).map(str::to_owned),
        );
        let next = page.all("a").find(|link| link.attributes.get("rel").is_some_and(|rel| rel == "next"));
        path = next.map(|link| link.attributes["href"].strip_prefix(PREFIX).unwrap().to_owned());
        assert!(seen.len() <= 6);
    }
    assert_eq!(seen, [6, 5, 4, 3, 2, 1].map(|id| format!("Select job {id}")));
}

support::on_each_database! {
    why_a_job_does_not_run_is_redacted,
    each_tab_has_its_number,
    the_page_of_a_job_names_its_trace,
    a_slash_at_the_end_leads_to_the_page,
    the_page_of_a_waiting_job_says_why_it_does_not_run,
    all_that_match_are_changed_by_an_operation,
    jobs_are_only_deleted_if_the_name_is_typed,
    failures_are_grouped_and_a_group_is_retried,
    jobs_are_moved_reprioritised_copied_and_deleted,
    the_list_is_read_page_by_page,
    the_overview_counts_the_jobs_of_each_queue,
    the_limits_name_full_keys_and_the_jobs_that_have_their_permits,
    the_list_has_tabs_and_filters,
    the_list_leads_to_kinds_queues_and_tags_and_shows_some_arguments,
    the_page_of_a_job_tells_its_story,
    secret_arguments_stand_on_no_page,
    the_application_says_what_is_shown,
    assets_are_found_by_the_names_on_the_page_and_kept,
    an_action_is_asked_for_and_then_done,
    what_moved_meanwhile_is_said,
}
