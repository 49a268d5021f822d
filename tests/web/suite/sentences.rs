//! Sentences lead somewhere: what they name is a link, and what they advise is a button with the command beneath.

use axum::http::StatusCode;
use diesel_jobs::operator::Action;
use diesel_jobs::rules::{Limit, Sequence};
use diesel_jobs::{JobId, NewJob};
use support::{Db, Running, until};

use crate::client::Client;
use crate::forms::encoded;
use crate::html::Page;
use crate::jobs::registry;
use crate::seed::seed;

/// A queue whose name ends another name, and begins the name of another queue.
const HOSTILE: &str = "a`\"<b> queue `mail";

fn job(kind: &str, queue: &str) -> NewJob {
    let mut job = NewJob::raw(kind.to_owned(), "{}");
    job.queue = queue.to_owned().into();
    job
}

/// The address of a page with a name, as the dashboard writes it.
fn named(path: &str, name: &str) -> String {
    format!("/admin/jobs{path}?name={}", encoded(name))
}

fn of_job(id: JobId) -> String {
    format!("/admin/jobs/jobs/{id}")
}

/// The links of the section that says why a job does not run, without the buttons.
fn things(page: &Page, within: &str) -> Vec<String> {
    let links = page.links(within).into_iter().map(|(_, url)| url);
    let mut links: Vec<String> = links.filter(|url| !url.contains("/confirm?")).collect();
    links.sort();
    links
}

/// The buttons, each of which leads to a page that asks before it acts.
async fn offers(client: &Client, page: &Page) -> Vec<String> {
    let offers = page.links("span.offers");
    for (label, url) in &offers {
        let asked = client.page(url.strip_prefix("/admin/jobs").unwrap()).await;
        assert!(asked.values("form", "method").any(|method| method == "post"), "{label}: {}", asked.text);
    }
    offers.into_iter().map(|(label, _)| label).collect()
}

async fn a_reason_has_links_and_buttons(db: Db) {
    let seeded = seed(&db).await;
    let client = Client::of(db.database());
    let operator = &db.database().operator;
    let limited = || NewJob::raw("pay", "{}").rule(Limit::new("stripe", 1).key("queue `mail`")).unwrap();
    let (first, held) = (db.enqueue(limited()).await, db.enqueue(limited()).await);
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    let paused = db.enqueue(job("pay", HOSTILE)).await;
    operator.pause_queue(HOSTILE, "eve", None).await.unwrap();
    // What somebody wrote becomes no link.
    operator.pause_kind("charge", "eve", Some("see queue `mail` and job 1")).await.unwrap();
    // The worker knows it from the start on.
    operator.set_slots("quick", Some(0), "eve").await.unwrap();
    let worker = Running::start(db.worker(registry()).queue("mail", 1).queue("quick", 1));
    until("a worker", async || operator.workers().await.unwrap().pop()).await;
    let unknown = db.enqueue(job("unheard_of", "mail")).await;
    let slots = db.enqueue(job("send_mail", "quick")).await;

    let (mail, pay) = (named("/queues/one", "mail"), named("/queues/one", "default"));
    let cases = [
        (paused, vec!["Resume the queue"], vec![named("/queues/one", HOSTILE), named("/queues/one", HOSTILE)]),
        (
            seeded.available,
            vec!["Resume the kind"],
            vec![named("/kinds/one", "charge"), named("/queues/one", "billing")],
        ),
        (seeded.scheduled, vec!["Run now"], vec![]),
        (seeded.retrying, vec!["Retry now"], vec![named("/queues/one", "reports")]),
        (held, vec!["Set the limit"], vec![of_job(first), "/admin/jobs/limits".to_owned(), pay]),
        (
            unknown,
            vec!["Cancel this job"],
            vec![named("/kinds/one", "unheard_of"), named("/kinds/one", "unheard_of"), mail],
        ),
        (slots, vec!["Change the slots"], vec![named("/queues/one", "quick")]),
    ];
    for (id, buttons, links) in cases {
        let path = format!("/jobs/{id}");
        let page = client.page(&path).await;
        assert_eq!(offers(&client, &page).await, buttons, "{}", page.text);
        assert_eq!(things(&page, "section.why"), links, "{}", page.text);
        // Who may not do it has the sentence alone.
        let reader = client.with_rights("read");
        let page = reader.page(&path).await;
        assert_eq!(page.links("span.offers"), []);
        assert_eq!(things(&page, "section.why"), links);
    }
    let one = client.with_rights("pause");
    assert_eq!(one.page(&format!("/jobs/{paused}")).await.links("span.offers").len(), 1);
    assert_eq!(one.page(&format!("/jobs/{held}")).await.links("span.offers").len(), 0);

    operator.set_limit("stripe", 1, "eve", None).await.unwrap();
    let page = client.page(&format!("/jobs/{held}")).await;
    assert_eq!(offers(&client, &page).await, ["Reset the limit"]);
    worker.stop().await;
    operator.freeze("zoe", "a move").await.unwrap();
    // There is no button for it.
    let page = client.page(&format!("/jobs/{paused}")).await;
    page.shows("worker thaw ends the freeze.");
    assert_eq!(offers(&client, &page).await, ["Resume the queue"]);
}

async fn a_held_job_leads_to_the_job_that_halts_its_sequence(db: Db) {
    let client = Client::of(db.database());
    let ordered = || NewJob::raw("pack", "{}").rule(Sequence::new("orders").key("a<b>")).unwrap();
    let (first, second) = (db.enqueue(ordered()).await, db.enqueue(ordered()).await);
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    db.database().operator.act(&Action::Discard, &[first], "bert").await.unwrap();
    let page = client.page(&format!("/jobs/{second}")).await;
    assert_eq!(offers(&client, &page).await, [format!("Retry job {first}"), "Continue without it".to_owned()]);
    assert!(things(&page, "section.why").contains(&of_job(first)), "{}", page.text);
}

async fn a_finding_has_links_and_buttons(db: Db) {
    let client = Client::of(db.database());
    let operator = &db.database().operator;
    let ordered = || NewJob::raw("pack", "{}").rule(Sequence::new("orders").key("a")).unwrap();
    let first = db.enqueue(ordered()).await;
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    operator.act(&Action::Discard, &[first], "bert").await.unwrap();
    operator.pause_kind("charge", "eve", None).await.unwrap();
    // One of them is named as the other one begins.
    for queue in ["a", HOSTILE] {
        operator.pause_queue(queue, "eve", None).await.unwrap();
    }
    let page = until("the report of the doctor", async || {
        let page = client.page("/doctor").await;
        page.contains("is halted").then_some(page)
    })
    .await;
    let mut expected = vec![
        named("/kinds/one", "charge"),
        named("/queues/one", "a"),
        named("/queues/one", HOSTILE),
        "/admin/jobs/limits".to_owned(),
        of_job(first),
    ];
    expected.sort();
    let links = things(&page, "ol.findings");
    for link in &expected {
        assert!(links.contains(link), "{link}: {links:?}");
    }
    let mut labels = offers(&client, &page).await;
    labels.sort();
    let retry = format!("Retry job {first}");
    assert_eq!(labels, ["Continue without it", "Resume the kind", "Resume the queue", "Resume the queue", &retry]);
    let resume = format!("/confirm?action=queue-resume&name={}", encoded(HOSTILE));
    client.page(&resume).await.shows(&format!("Resume the queue {HOSTILE}?"));
    let buttons = page.links("span.offers");
    assert!(buttons.iter().any(|(_, url)| *url == format!("/admin/jobs{resume}")), "{buttons:?}");
    // The command stands beneath, and the overview has the worst of them with their buttons.
    page.shows("worker kinds resume charge");
    let overview = client.page("").await;
    assert!(!offers(&client, &overview).await.is_empty());
    assert_eq!(client.with_rights("read").page("/doctor").await.links("span.offers"), []);
    assert_eq!(client.with_rights("read").get(&resume).await.status, StatusCode::FORBIDDEN);
}

support::on_each_database! {
    a_reason_has_links_and_buttons,
    a_held_job_leads_to_the_job_that_halts_its_sequence,
    a_finding_has_links_and_buttons,
}
