//! What fails now: the overview and the page Failures.

use diesel_jobs::JobState;
use support::{Db, Running};

use crate::client::Client;
use crate::html::Page;
use crate::jobs::registry;
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

support::on_each_database! { the_overview_says_what_fails }
