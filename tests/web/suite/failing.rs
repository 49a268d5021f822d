//! What fails now: the overview and the page Failures.

use diesel_jobs::JobState;
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::schedule::{CatchUp, NewSchedule, ScheduledJob};
use support::{Db, Running, until};

use crate::client::{Client, PREFIX};
use crate::html::Page;
use crate::jobs::{Charge, Report, SendMail, registry};
use crate::seed::seed;

/// The groups of failures on a page, with the number of the last hour.
fn groups(page: &Page) -> Vec<(String, String)> {
    let cells =
        page.all("td").filter(|cell| cell.attributes.get("data-label").is_some_and(|label| label == "Last hour"));
    let rows = page.texts("tbody", "th").into_iter().filter(|row| row.contains("such as job"));
    rows.zip(cells.map(|cell| cell.text.trim().to_owned())).collect()
}

async fn the_overview_says_what_fails(db: Db) {
    let seeded = seed(&db).await;
    let page = Client::of(db.database()).page("").await;
    page.shows("Failed in the last hour");
    let found = groups(&page);
    assert_eq!(found.len(), 2, "{found:?}");
    for text in ["the bank refused order 7", "there are no figures of monday"] {
        let (row, number) = found.iter().find(|(row, _)| row.contains(text)).unwrap();
        assert!(row.contains("new") && number == "1", "{row}: {number}");
    }
    let mut buttons = page.texts("form.row-actions small", "button");
    buttons.sort();
    assert_eq!(buttons, ["Discard all", "Retry all", "Retry all"]);

    // Only one of them fails again after two hours.
    db.database().operator.cancel(seeded.available).await.unwrap();
    db.execute(if db.is_postgres() {
        "update jobs.job_error set at = at - interval '2 h'"
    } else {
        "update jobs_job_error set at = at - 7200000000"
    })
    .await;
    let operator = &db.database().operator;
    operator.act(&diesel_jobs::operator::Action::Retry, &[seeded.retrying], "ada").await.unwrap();
    let worker = Running::start(db.worker(registry()));
    db.await_state(seeded.retrying, JobState::Retrying).await;
    worker.stop().await;
    let client = Client::of(db.database());
    let found = groups(&client.page("").await);
    let [(row, number)] = &*found else { panic!("{found:?}") };
    assert!(row.contains("no figures of monday") && !row.contains("new") && number == "1", "{row}: {number}");
    let mut all: Vec<String> = groups(&client.page("/failures").await).into_iter().map(|(_, number)| number).collect();
    all.sort();
    assert_eq!(all, ["0", "1"]);
}

async fn the_overview_names_kinds_and_schedules_that_fail(db: Db) {
    for order in 0..12 {
        db.enqueue(Charge { order, card: "4000".to_owned() }).await;
        db.enqueue(SendMail { to: "ada".to_owned() }).await;
    }
    let worker = Running::start(db.worker(registry()));
    let operator = &db.database().operator;
    let schedule = NewSchedule {
        name: "nightly".to_owned(),
        kind: "charge".to_owned(),
        expression: "0 0 1 1 *".to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Skip,
        job: ScheduledJob::default(),
    };
    let of_others = NewSchedule { name: "yearly".to_owned(), ..schedule.clone() };
    let letters = NewSchedule { name: "letters".to_owned(), kind: "send_mail".to_owned(), ..schedule.clone() };
    for schedule in [&schedule, &of_others, &letters] {
        operator.add_schedule(schedule, "eve").await.unwrap();
    }
    let charge = Charge { order: 13, card: "4000".to_owned() }.into_new_job().unwrap();
    let mail = SendMail { to: "bo".to_owned() }.into_new_job().unwrap();
    for (name, job) in [("nightly", charge), ("letters", mail)] {
        operator.enqueue_for_schedule(name, &[job], "trigger", "eve").await.unwrap();
    }
    let page = until("the worker's history", async || {
        let page = Client::of(db.database()).page("").await;
        (page.contains("charge 100 %") && page.contains("was discarded")).then_some(page)
    })
    .await;
    worker.stop().await;
    page.shows("More than 10 % of the attempts failed: charge 100 %.");
    page.shows("The newest job of 1 schedule was discarded.");
    let bad = page.texts("section.notice bad", "li");
    let job = operator
        .list_schedules()
        .await
        .unwrap()
        .0
        .into_iter()
        .find_map(|one| one.last_run.filter(|_| one.name == "nightly"));
    assert_eq!(bad, [format!("nightly: job {}", job.unwrap().job)]);
    let page = Client::of(db.database()).page("/schedules").await;
    page.shows("never");
}

async fn a_failure_is_shown_in_full_and_leads_to_those_like_it(db: Db) {
    const WHOLE: &str = "there are no figures of monday\nand <b>nobody</b> knows why";
    let report = || Report { day: WHOLE.trim_start_matches("there are no figures of ").to_owned() };
    let jobs = [db.enqueue(report()).await, db.enqueue(report()).await];
    let charge = db.enqueue(Charge { order: 7, card: "4000\n1234".to_owned() }).await;
    let worker = Running::start(db.worker(registry()));
    for job in jobs {
        db.await_state(job, JobState::Retrying).await;
    }
    db.await_state(charge, JobState::Discarded).await;
    worker.stop().await;
    let client = Client::of(db.database());
    for path in ["", "/failures"] {
        let page = client.page(path).await;
        let whole = page.texts("details.more", "pre");
        assert!(whole.iter().any(|text| text == WHOLE), "{path}: {whole:?}");
        page.hides("1234");
    }
    let page = client.page(&format!("/jobs/{}", jobs[0])).await;
    page.shows("Other jobs of this kind with the same failure: 1.");
    let links = page.links("section");
    let (_, list) = links.iter().find(|(text, url)| text == "1" && url.contains("fingerprint")).unwrap();
    let list = client.page(list.strip_prefix(PREFIX).unwrap()).await;
    for job in jobs {
        list.shows(&job.to_string());
    }
    // It is the only one of its kind.
    client.page(&format!("/jobs/{charge}")).await.hides("same failure");
}

support::on_each_database! {
    the_overview_says_what_fails,
    the_overview_names_kinds_and_schedules_that_fail,
    a_failure_is_shown_in_full_and_leads_to_those_like_it,
}
