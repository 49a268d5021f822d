//! What the doctor finds, on its page and on the overview.

use std::collections::BTreeSet;
use std::time::Instant;

use axum::http::StatusCode;
use support::{Db, until};

use crate::client::Client;
use crate::jobs::{SendMail, registry};
use support::Running;

async fn a_finding_stands_on_its_page_with_what_repairs_it(db: Db) {
    // Jobs wait, and no worker is there to serve them.
    db.enqueue(SendMail { to: "ada".to_owned() }).await;
    let client = Client::of(db.database());
    let page = until("the report of the doctor", async || {
        let page = client.page("/doctor").await;
        page.contains("To repair it:").then_some(page)
    })
    .await;
    page.shows("mail");
    page.shows("worker run");
    page.shows("Checked");
    let overview = client.page("").await;
    overview.shows("The doctor found");
    assert!(overview.values("a", "href").any(|href| href == "/admin/jobs/doctor"));
    assert_eq!(client.get("/doctor?agian=yes").await.status, StatusCode::BAD_REQUEST);
}

/// The overview never waits for the doctor: it shows the newest report, and starts the checks again in the background.
async fn the_overview_does_not_run_the_checks_each_time(db: Db) {
    let worker = Running::start(db.worker(registry()));
    let client = Client::of(db.database());
    let begun = Instant::now();
    client.page("").await;
    until("the report of the doctor", async || {
        let page = client.page("/doctor").await;
        page.contains("Checked").then_some(())
    })
    .await;
    let mut checked = BTreeSet::new();
    for _ in 0..50 {
        client.page("").await;
        checked.insert(client.page("/doctor").await.values("time", "datetime").next().unwrap().to_owned());
    }
    // A report is examined again when it is a minute old. On a slow machine it may become that.
    let minutes = usize::try_from(begun.elapsed().as_secs() / 60).unwrap();
    assert!(checked.len() <= 1 + minutes, "{checked:?} after {:?}", begun.elapsed());
    worker.stop().await;
}

support::on_each_database! { a_finding_stands_on_its_page_with_what_repairs_it, the_overview_does_not_run_the_checks_each_time }
