//! Each page of the dashboard, asked for through its router.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use diesel_jobs_web::{Dashboard, Rights};
use tower::ServiceExt as _;

use crate::figure::Figure;
use crate::statements;
use crate::store::Store;
use crate::targets::Targets;

const PREFIX: &str = "/admin/jobs";
/// The most milliseconds of a page.
const MOST: f64 = 50.0;
/// The same for a list of which no index knows the jobs. It is searched for at most a second.
const MOST_OF_SEARCH: f64 = 1200.0;
/// Pages whose links to lists of jobs are followed.
const LINKING: [&str; 6] = ["", "/queues", "/kinds", "/failures", "/queues/one?name=queue_3", "/kinds/one?name=kind_7"];

/// Only arguments of kinds that the program knows can be searched.
#[diesel_jobs::job(kind = "kind_7")]
async fn known(order: i64) -> Result<i64, std::io::Error> {
    Ok(order)
}

/// Name and address of each page.
fn addresses(targets: &Targets) -> Vec<(String, String)> {
    let mut addresses: Vec<(String, String)> = [
        ("overview, 1 h", "?range=1h"),
        ("overview, 24 h", "?range=24h"),
        ("overview, 7 d", "?range=7d"),
        ("jobs", "/jobs"),
        ("jobs, available", "/jobs?state=available"),
        ("jobs, scheduled", "/jobs?state=scheduled"),
        ("jobs, retrying", "/jobs?state=retrying"),
        ("jobs, running", "/jobs?state=running"),
        ("jobs, completed", "/jobs?state=completed"),
        ("jobs, cancelled", "/jobs?state=cancelled"),
        ("jobs, discarded", "/jobs?state=discarded"),
        ("jobs of a kind", "/jobs?kind=kind_7"),
        ("jobs of an unknown kind", "/jobs?kind=nothing"),
        ("jobs of a queue", "/jobs?queue=queue_3"),
        ("search, a tag", "/jobs?tag=customer_70"),
        ("jobs with an error", "/jobs?state=discarded&error=refused"),
        ("search, an unknown error", "/jobs?error=nothing"),
        ("search, an argument", "/jobs?q=kind%3Akind_7+args.order%3A77"),
        ("jobs with a priority", "/jobs?q=priority%3A5"),
        ("jobs of a time", "/jobs?q=enqueued_before%3A2d"),
        ("queues", "/queues"),
        ("queue", "/queues/one?name=queue_3"),
        ("queue, 7 d", "/queues/one?name=queue_3&range=7d"),
        ("kind", "/kinds/one?name=kind_7"),
        ("kinds", "/kinds"),
        ("limits", "/limits"),
        ("workers", "/workers"),
        ("schedules", "/schedules"),
        ("failures", "/failures"),
        ("operations", "/operations"),
        ("help", "/help"),
        ("confirm, all of a kind", "/confirm?action=retry&all=yes&filter=kind%3Akind_7"),
        ("confirm, all discarded", "/confirm?action=retry&all=yes&filter=state%3Adiscarded"),
        ("drain", "/queues/drain?queue=queue_3"),
        ("confirm, purge", "/confirm?action=queue-purge&name=queue_3"),
    ]
    .map(|(name, path)| (name.to_owned(), path.to_owned()))
    .into();
    for (name, id) in [
        ("available", targets.available),
        ("scheduled", targets.scheduled),
        ("retrying", targets.retrying),
        ("running", targets.running),
        ("completed", targets.completed),
        ("discarded", targets.discarded),
    ] {
        addresses.push((format!("job, {name}"), format!("/jobs/{id}")));
    }
    // A page far down in the list.
    addresses.push(("jobs, far down".to_owned(), format!("/jobs?before={}", targets.completed.0 / 2)));
    let selected: String = (0..100).map(|number| format!("&id={}", targets.discarded.0 - number)).collect();
    addresses.push(("confirm, 100 selected".to_owned(), format!("/confirm?action=delete{selected}")));
    addresses
}

/// Asks for a page.
async fn ask(router: &Router, address: &str) -> Result<String> {
    let request = Request::builder()
        .uri(format!("{PREFIX}{address}"))
        .body(Body::empty())
        .with_context(|| format!("{address} is no address"))?;
    let response = router.clone().oneshot(request).await?;
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await?;
    let body = String::from_utf8_lossy(&body).into_owned();
    if status != StatusCode::OK {
        bail!("{address} was answered with {status}: {body}");
    }
    Ok(body)
}

/// The addresses of the lists of jobs to which a page leads, and of the page on which a search goes on.
fn lists(page: &str) -> Vec<String> {
    let start = format!("href=\"{PREFIX}/jobs?");
    let links = page.split(&start).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
    links.map(|query| format!("/jobs?{}", query.replace("&#38;", "&").replace("&amp;", "&"))).collect()
}

/// Follows each link to a list of jobs, and fails if the list has none. A search may go on for several pages.
pub(crate) async fn follow(store: &Store) -> Result<()> {
    let router = router(store);
    let mut followed = 0;
    for from in LINKING {
        for address in lists(&ask(&router, from).await?) {
            let (mut at, mut searched) = (address.clone(), 0);
            loop {
                let page = ask(&router, &at).await?;
                if !page.contains("class=\"empty\"") {
                    break;
                }
                let on = page.contains("data-search-on").then(|| lists(&page).pop()).flatten();
                at = on.with_context(|| format!("{from:?} leads to {address}, which lists no job"))?;
                searched += 1;
            }
            if searched > 0 {
                eprintln!("{from:?} leads to {address}, which was searched for {searched} s");
            }
            followed += 1;
        }
    }
    eprintln!("followed {followed} links to lists of jobs, none of which is empty");
    Ok(())
}

fn router(store: &Store) -> Router {
    let dashboard =
        Dashboard::new(store.database.clone()).at(PREFIX).rights(|_| std::future::ready(Rights::everything("measure")));
    Router::new().nest_service(PREFIX, dashboard.router())
}

/// Measures all pages whose name contains the text.
pub(crate) async fn measure(store: &Store, targets: &Targets, runs: u32, only: &str) -> Result<Vec<Figure>> {
    let router = router(store);
    let mut figures = Vec::new();
    for (name, address) in addresses(targets).into_iter().filter(|(name, _)| name.contains(only)) {
        let (sent, begun) = (statements::sent(), Instant::now());
        let bytes = ask(&router, &address).await?.len();
        let (first, sent) = (begun.elapsed().as_secs_f64() * 1000.0, statements::sent() - sent);
        let mut times = Vec::new();
        for _ in 0..runs {
            let begun = Instant::now();
            ask(&router, &address).await?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        let most = if name.starts_with("search") { MOST_OF_SEARCH } else { MOST };
        figures.push(Figure { name, first, times, most, statements: Some(sent), bytes });
    }
    Ok(figures)
}
