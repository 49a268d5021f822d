//! Links to lists of jobs: a list shows jobs while some match, however many others are newer.

use diesel_jobs::store::Chore;
use support::Db;

use crate::client::Client;
use crate::hostile::form_encoded;
use crate::html::Page;
use crate::seed::{Seeded, seed};

/// One page of a storage examines 20,000 jobs of each table.
const NEWER: u32 = 45_000;

async fn among_many_newer_jobs(db: &Db) -> Seeded {
    let seeded = seed(db).await;
    let insert = if db.is_postgres() {
        format!(
            "insert into jobs.ready (kind, queue, args, enqueued_at) select 'other', 'other', '{{}}', now() - interval '1 h'
             from generate_series(1, {NEWER})"
        )
    } else {
        format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {NEWER})
             insert into jobs_job (kind, queue, args, enqueued_at) select 'other', 'other', '{{}}',
                 (cast(round(unixepoch('subsec') * 1000) as integer) - 3600000) * 1000 from n"
        )
    };
    db.execute(&insert).await;
    db.database().storage.maintain(Chore::SampleJobs, 1).await.unwrap();
    seeded
}

/// The links of a page to lists of jobs, with their texts.
fn lists(page: &Page) -> Vec<(String, String)> {
    let links = page.all("a").filter_map(|link| {
        let address = link.attributes.get("href").filter(|address| address.starts_with("/admin/jobs/jobs?"))?;
        Some((link.text.trim().to_owned(), address.trim_start_matches("/admin/jobs").to_owned()))
    });
    links.collect()
}

/// The ids of a list. On a slow machine one page may not have all of them, and leads to the next one.
async fn search(client: &Client, address: &str) -> (Vec<String>, Page) {
    let mut page = client.page(address).await;
    let mut ids = page.texts("tbody", "th");
    while ids.len() < 50
        && let Some(next) = next(&page)
    {
        page = client.page(&next).await;
        ids.extend(page.texts("tbody", "th"));
    }
    (ids, page)
}

fn next(page: &Page) -> Option<String> {
    let link = page.all("a").find(|link| link.attributes.get("rel").is_some_and(|rel| rel == "next"))?;
    Some(link.attributes["href"].trim_start_matches("/admin/jobs").to_owned())
}

async fn every_link_to_a_list_of_jobs_shows_jobs(db: Db) {
    let seeded = among_many_newer_jobs(&db).await;
    let client = Client::of(db.database());
    let mut followed = 0;
    for path in [
        "",
        "/queues",
        "/queues/one?name=mail",
        "/kinds",
        "/kinds/one?name=charge",
        "/failures",
        &format!("/jobs/{}", seeded.scheduled),
    ] {
        for (text, address) in lists(&client.page(path).await) {
            let (ids, page) = search(&client, &address).await;
            assert!(!ids.is_empty(), "{path}: {text:?} leads to {address}, which is empty: {}", page.text);
            if let Ok(number) = text.parse::<usize>() {
                assert_eq!(ids.len(), number, "{path}: {text:?} leads to {address}");
            }
            followed += 1;
        }
    }
    assert!(followed > 25, "{followed}");
}

async fn a_page_searches_until_it_is_full(db: Db) {
    let seeded = among_many_newer_jobs(&db).await;
    let client = Client::of(db.database());
    for (filter, job) in [
        ("kind=charge", seeded.available),
        ("queue=billing", seeded.available),
        ("tag=newsletter", seeded.scheduled),
        ("error=the+bank", seeded.discarded),
        ("q=kind%3Asend_mail+state%3Acancelled,scheduled", seeded.cancelled),
    ] {
        let (ids, _) = search(&client, &format!("/jobs?{filter}")).await;
        assert!(ids.contains(&job.to_string()), "{filter}: {ids:?}");
    }
    search(&client, "/jobs?tag=nothing").await.1.shows("job matches.");
    search(&client, &format!("/jobs?tag=nothing&before={}", seeded.available)).await.1.shows("No older job matches.");
    // A tab chooses its state in place of those of the conditions.
    let page = client.page("/jobs?q=state%3Ascheduled,retrying&kind=send_mail").await;
    assert!(page.values("a", "href").any(|href| href == "/admin/jobs/jobs?state=discarded&kind=send_mail"));
    let page = client.page("/jobs?state=discarded&q=state%3Ascheduled,retrying").await;
    assert_eq!(page.texts("tbody", "th"), [seeded.discarded.to_string()]);
    // A kind of which the last count has found no job, so that a wrong name does not search all jobs.
    let page = client.page("/jobs?kind=carge").await;
    page.shows("there was none of this kind");
    assert!(page.texts("p.pager", "a").contains(&"Search older jobs".to_owned()));
}

async fn an_action_on_all_that_match_never_asks_about_no_job(db: Db) {
    let seeded = among_many_newer_jobs(&db).await;
    let client = Client::of(db.database());
    let asked = async |action: &str, filter: &str| {
        client.page(&format!("/confirm?action={action}&all=yes&filter={}", form_encoded(filter))).await
    };
    for (action, filter) in
        [("retry", "error:\"no figures\""), ("cancel", "args.day:monday"), ("delete", "args.to:eve")]
    {
        let page = asked(action, filter).await;
        let question = &page.texts("main", "h1")[0];
        // A search ends after a second, and this machine may be slow.
        if !question.ends_with(" all jobs that match?") {
            assert!(question.ends_with(" 1 job?"), "{filter}: {question}");
            let job = if action == "delete" { seeded.scheduled } else { seeded.retrying };
            assert!(page.texts("ul.sample", "a").contains(&job.to_string()), "{filter}: {}", page.text);
        }
    }
}

support::on_each_database! {
    every_link_to_a_list_of_jobs_shows_jobs,
    a_page_searches_until_it_is_full,
    an_action_on_all_that_match_never_asks_about_no_job,
}
