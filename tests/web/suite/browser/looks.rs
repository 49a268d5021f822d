//! How the pages look: light and dark, wide and narrow, to people and to axe-core.

use std::fs;

use diesel_jobs::NewJob;
use serde_json::Value;
use support::Db;

use super::driver::{Browser, variable};
use super::serve;
use crate::seed::{Seeded, seed};

/// All pages with something to show.
fn pages(jobs: &Seeded) -> Vec<String> {
    let mut pages: Vec<String> = [
        "",
        "/jobs",
        "/queues",
        "/kinds",
        "/queues/one?name=mail",
        "/kinds/one?name=charge",
        "/limits",
        "/workers",
        "/schedules",
        "/failures",
        "/operations",
        "/doctor",
        "/queues/drain?queue=mail",
        "/confirm?action=schedule-add",
        "/help",
        "/jobs?state=discarded",
        "/nothing",
    ]
    .map(str::to_owned)
    .into();
    pages.extend([jobs.completed, jobs.discarded, jobs.scheduled].map(|id| format!("/jobs/{id}")));
    pages.push(format!("/confirm?action=cancel&id={}&id={}", jobs.available, jobs.scheduled));
    pages.push("/confirm?action=queue-pause&name=mail".to_owned());
    pages
}

/// Runs axe-core in the page. Returns what it finds serious or critical.
async fn audit(browser: &mut Browser, axe: &str) -> Vec<String> {
    browser.run(axe).await;
    let found = browser
        .run_async(
            "const done = arguments[arguments.length - 1]; axe.run(document, { resultTypes: ['violations'] }).then(r => done(r.violations))",
        )
        .await;
    let serious = |violation: &&Value| ["serious", "critical"].iter().any(|impact| violation["impact"] == *impact);
    let told = |violation: &Value| {
        let nodes: Vec<String> =
            violation["nodes"].as_array().unwrap().iter().take(3).map(|n| n["html"].to_string()).collect();
        format!("{}: {} {}", violation["id"], violation["help"], nodes.join(" "))
    };
    found.as_array().unwrap().iter().filter(serious).map(told).collect()
}

async fn axe_finds_nothing_serious_and_the_policy_is_kept(db: Db) {
    let jobs = seed(&db).await;
    let at = serve(&db).await;
    let axe = fs::read_to_string(variable("JOBS_TEST_AXE")).unwrap();
    let mut browser = Browser::start().await;
    let mut complaints = Vec::new();
    for scheme in ["light", "dark"] {
        browser.scheme(scheme).await;
        for page in pages(&jobs) {
            browser.open(&format!("{at}{page}")).await;
            let refused = browser.complaints().await;
            // The browser reports the status of a page that is not there.
            complaints
                .extend(refused.into_iter().filter(|text| !text.contains("404")).map(|text| format!("{page}: {text}")));
            complaints
                .extend(audit(&mut browser, &axe).await.into_iter().map(|text| format!("{page} {scheme}: {text}")));
            browser.complaints().await;
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

async fn a_narrow_screen_needs_no_sideways_scrolling(db: Db) {
    let jobs = seed(&db).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.size(320, 640).await;
    for page in pages(&jobs) {
        browser.open(&format!("{at}{page}")).await;
        let wide = browser
            .run(
                "return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.hidden, .skip, thead') && \
                 e.getBoundingClientRect().right > 320.5).map(e => e.outerHTML.slice(0, 120)).slice(0, 3).concat( \
                 document.documentElement.scrollWidth > 320 ? ['width ' + document.documentElement.scrollWidth] : [])",
            )
            .await;
        assert_eq!(wide, serde_json::json!([]), "{page}");
        // The menu opens without a script.
        assert_eq!(browser.run("return getComputedStyle(document.querySelector('.side')).display").await, "none");
    }
    browser.click(".menu summary").await;
    browser.click(".menu a[href$='/jobs/jobs']").await;
    browser.shows("h1", "Jobs").await;
}

async fn dark_is_dark(db: Db) {
    seed(&db).await;
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    let mut backgrounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.scheme(scheme).await;
        browser.open(&at).await;
        backgrounds.push(browser.run("return getComputedStyle(document.body).backgroundColor").await);
    }
    assert_eq!(backgrounds, ["rgb(246, 247, 248)", "rgb(20, 23, 27)"]);
}

async fn a_name_that_turns_round_the_writing_turns_nothing_else(db: Db) {
    let mut conn = db.conn().await;
    for queue in ["a\u{202e}b", "c", "d"] {
        let mut job = NewJob::raw("k\u{202e}ind", "{}");
        job.queue = queue.into();
        conn.enqueue(job).await;
    }
    let at = serve(&db).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("{at}/kinds")).await;
    let from_left = "const queues = [...document.querySelectorAll('td[data-label=Queue] bdi')].map(e => e.getBoundingClientRect().left);
        return queues.length === 3 && queues.every((left, i) => i === 0 || left > queues[i - 1])";
    assert_eq!(browser.run(from_left).await, true);
    for page in ["/kinds", "/jobs", "/queues", "/operations"] {
        browser.open(&format!("{at}{page}")).await;
        let open = "return [...document.querySelectorAll('body *')].filter(e => getComputedStyle(e).unicodeBidi !== 'isolate').map(e => e.outerHTML)";
        assert_eq!(browser.run(open).await, serde_json::json!([]), "{page}");
    }
}

support::on_postgres! {
    axe_finds_nothing_serious_and_the_policy_is_kept,
    a_narrow_screen_needs_no_sideways_scrolling,
    dark_is_dark,
    a_name_that_turns_round_the_writing_turns_nothing_else,
}
