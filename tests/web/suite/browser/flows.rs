//! What an operator does, step by step.

use diesel_jobs::operator::Action;
use diesel_jobs::{JobId, JobState};
use support::{Db, until};

use super::driver::Browser;
use super::serve;
use crate::client::{Client, PREFIX};
use crate::hostile;
use crate::jobs::SendMail;
use crate::seed::seed;

/// Selects a job in the list, and retries it.
async fn retry_from_the_list(browser: &mut Browser, at: &str, id: JobId) {
    browser.open(&format!("{at}/jobs?state=discarded")).await;
    browser.click(&format!("input[name=id][value='{id}']")).await;
    browser.click("button[value=retry]").await;
    browser.shows("h1", "Retry 1 job?").await;
    browser.shows("main", "charge in billing, discarded").await;
    browser.click("form.confirm button").await;
    browser.shows("h1", "1 job: due now").await;
}

async fn a_selection_is_retried_with_scripts_and_without(db: Db) {
    let jobs = seed(&db).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    retry_from_the_list(&mut browser, &at, jobs.discarded).await;
    assert_eq!(db.record(jobs.discarded).await.state, JobState::Available);

    browser.scripts(false).await;
    browser.open(&format!("{at}/jobs/{}", jobs.available)).await;
    browser.click("button[value=cancel]").await;
    browser.shows("h1", "Cancel 1 job?").await;
    assert_eq!(db.record(jobs.available).await.state, JobState::Available, "asking changes nothing");
    browser.click("form.confirm button").await;
    browser.shows("h1", "1 job: cancelled").await;
    assert_eq!(db.record(jobs.available).await.state, JobState::Cancelled);
    assert_eq!(browser.complaints().await, [""; 0]);
}

async fn a_page_shows_changes_while_it_is_open(db: Db) {
    seed(&db).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("{at}/jobs?kind=send_mail&state=available")).await;
    browser.shows("#live", "No job matches").await;
    browser.shows("#live-state", "Live, as of").await;
    let id = db.enqueue(SendMail { to: "new".to_owned() }).await;
    browser.shows("#live tbody", &id.to_string()).await;
    // While rows are selected, they stay where they are.
    browser.click(&format!("input[name=id][value='{id}']")).await;
    db.enqueue(SendMail { to: "newer".to_owned() }).await;
    browser.shows("#live-state", "Updates are paused while rows are selected").await;
    browser.shows("form[data-select] .label", "1 selected").await;
    assert_eq!(browser.complaints().await, [""; 0]);
}

async fn rows_do_not_move_under_the_pointer(db: Db) {
    let first = db.enqueue(SendMail { to: "first".to_owned() }).await;
    let second = db.enqueue(SendMail { to: "second".to_owned() }).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("{at}/jobs?kind=send_mail&state=available")).await;
    browser.shows("#live-state", "Live, as of").await;
    let rows = "return [...document.querySelectorAll('#live tbody th')].map(e => e.innerText)";
    let top = "return Math.round(document.querySelector('#live tbody tr:nth-child(2)').getBoundingClientRect().top)";
    browser.point("#live tbody tr:nth-child(2) td:nth-child(3)").await;
    let before = browser.run(top).await;
    let shown = serde_json::json!([second.to_string(), first.to_string()]);
    // A job that changes does so in its place, and one that has left the list stays.
    let operator = &db.database().operator;
    operator.act(&Action::Reprioritise(7), &[first], "eve").await.unwrap();
    operator.cancel(second).await.unwrap();
    let mut newer = Vec::new();
    for number in 1..=2 {
        newer.push(db.enqueue(SendMail { to: "newer".to_owned() }).await.to_string());
        browser.shows("#live .fresh", &format!("{number} new")).await;
        assert_eq!((browser.run(rows).await, browser.run(top).await), (shown.clone(), before.clone()));
    }
    browser.shows("#live tbody tr:nth-child(2)", "7").await;
    let covered = "const e = document.querySelector('#live tbody tr:hover th'); return e && e.innerText";
    assert_eq!(browser.run(covered).await, first.to_string());
    // When the pointer leaves the table, the list is as new as ever.
    browser.point("h1").await;
    let all = serde_json::json!([newer[1], newer[0], first.to_string()]);
    until("all rows", async || (browser.run(rows).await == all).then_some(())).await;
    assert_eq!(browser.text(".fresh").await, "");
    assert_eq!(browser.complaints().await, [""; 0]);
}

async fn filters_stand_in_the_address_and_keys_lead_around(db: Db) {
    seed(&db).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.open(&at).await;
    browser.key("g").await;
    browser.key("j").await;
    browser.shows("h1", "Jobs").await;
    browser.key("/").await;
    assert_eq!(browser.run("return document.activeElement.name").await, "kind");
    browser.write("input[name=kind]", "charge").await;
    browser.click("form.filters button").await;
    browser.shows("#live tbody", "charge").await;
    let path = browser.path().await;
    assert!(path.starts_with(&format!("{PREFIX}/jobs?")) && path.contains("kind=charge"), "{path}");
    assert!(!browser.text("#live tbody").await.contains("send_mail"));
    browser.key("?").await;
    browser.shows("h1", "Help").await;
    // Times have the reader's own zone in their titles.
    browser.open(&format!("{at}/jobs")).await;
    let title = browser.run("return document.querySelector('td time').title").await;
    assert!(title.as_str().unwrap().lines().count() == 2, "{title}");
    // The first key of a reader without a mouse leads to the content.
    browser.key("\u{e004}").await;
    assert_eq!(browser.run("return document.activeElement.className").await, "skip");
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// Without scripts all times are UTC. With scripts they are in the zone of the reader.
async fn times_are_in_one_zone(db: Db) {
    let jobs = seed(&db).await;
    db.database().operator.pause_queue("mail", "eve", Some("see 2025-01-02 03:04:05Z")).await.unwrap();
    until("the worker's history", async || Client::of(db.database()).page("").await.contains(" UTC: ").then_some(()))
        .await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.cdp("Emulation.setTimezoneOverride", serde_json::json!({ "timezoneId": "Asia/Tehran" })).await;
    for (scripts, zone) in [(true, "GMT+3:30"), (false, "UTC")] {
        browser.scripts(scripts).await;
        browser.open(&format!("{at}/jobs/{}", jobs.scheduled)).await;
        let text = browser.text(".timeline li").await;
        assert!(text.trim().ends_with(zone), "{text}");
        browser.open(&at).await;
        let text = browser.text("section.notice.warn li").await;
        let wanted = if scripts { "2 Jan 2025, 06:34:05 GMT+3:30" } else { "2025-01-02 03:04:05Z" };
        let dated = text.contains(wanted) || text.contains("Jan 2, 2025, 06:34:05 GMT+3:30");
        assert!(text.contains("paused since") && dated, "{text}");
        let text = browser.text(".zone-note").await;
        assert!(text.contains(if scripts { "Asia/Tehran" } else { "UTC" }), "{text}");
        // The axes and the titles of the charts, too.
        let chart = "const e = document.querySelector('rect.hit title'); return e ? e.textContent : ''";
        let text = browser.run(chart).await;
        assert!(text.as_str().is_some_and(|text| text.contains(zone)), "{text}");
        let label = browser.text(".x time").await;
        let minutes = label.split_once(':').unwrap().1.parse::<u32>().unwrap();
        let utc = "return new Date(document.querySelector('.x time').dateTime).getUTCMinutes()";
        let expected = browser.run(utc).await.as_u64().unwrap() + if scripts { 30 } else { 0 };
        assert_eq!(u64::from(minutes), expected % 60, "{label}");
    }
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// Every hostile string stands on a page that the browser shows. A string that ran would set a mark, open a dialog, or
/// violate the policy.
async fn hostile_strings_never_run(db: Db) {
    hostile::plant(&db).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.open(&at).await;
    browser.shows("#live-state", "Live, as of").await;
    let mut next = Some(format!("{at}/jobs?limit=500"));
    let mut seen = 0;
    while let Some(url) = next {
        browser.open(&url).await;
        seen += browser.run("return document.querySelectorAll('#live tbody td.check').length").await.as_u64().unwrap();
        let link = browser.run("const a = document.querySelector('a[rel=next]'); return a && a.href").await;
        next = link.as_str().map(str::to_owned);
    }
    assert_eq!(usize::try_from(seen).unwrap(), hostile::COUNT / 5);
    for id in (1..=hostile::COUNT / 5).step_by(41) {
        browser.open(&format!("{at}/jobs/{id}")).await;
        browser.shows("h1", &format!("Job {id}")).await;
    }
    for page in ["", "/queues", "/kinds", "/failures"] {
        browser.open(&format!("{at}{page}")).await;
    }
    // A dialog would have made the commands fail.
    assert_eq!(browser.complaints().await, [""; 0]);
}

support::on_postgres! {
    hostile_strings_never_run,
    a_selection_is_retried_with_scripts_and_without,
    a_page_shows_changes_while_it_is_open,
    filters_stand_in_the_address_and_keys_lead_around,
    rows_do_not_move_under_the_pointer,
    times_are_in_one_zone,
}

mod sqlite {
    use super::*;

    support::on_sqlite! { a_selection_is_retried_with_scripts_and_without_on_a_file }

    async fn a_selection_is_retried_with_scripts_and_without_on_a_file(db: Db) {
        a_selection_is_retried_with_scripts_and_without(db).await;
    }
}
