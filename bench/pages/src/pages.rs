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
        ("jobs with a tag", "/jobs?tag=customer_70"),
        ("jobs with an error", "/jobs?state=discarded&error=refused"),
        ("jobs with an unknown error", "/jobs?error=nothing"),
        ("jobs with an argument", "/jobs?q=args.order%3A77"),
        ("jobs with a priority", "/jobs?q=priority%3A5"),
        ("jobs of a time", "/jobs?q=enqueued_before%3A2d"),
        ("queues", "/queues"),
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

/// Asks for a page, and returns how large it is.
async fn ask(router: &Router, address: &str) -> Result<usize> {
    let request = Request::builder()
        .uri(format!("{PREFIX}{address}"))
        .body(Body::empty())
        .with_context(|| format!("{address} is no address"))?;
    let response = router.clone().oneshot(request).await?;
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await?;
    if status != StatusCode::OK {
        bail!("{address} was answered with {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(body.len())
}

/// Measures all pages whose name contains the text.
pub(crate) async fn measure(store: &Store, targets: &Targets, runs: u32, only: &str) -> Result<Vec<Figure>> {
    let dashboard =
        Dashboard::new(store.database.clone()).at(PREFIX).rights(|_| std::future::ready(Rights::everything("measure")));
    let router = Router::new().nest_service(PREFIX, dashboard.router());
    let mut figures = Vec::new();
    for (name, address) in addresses(targets).into_iter().filter(|(name, _)| name.contains(only)) {
        let (sent, begun) = (statements::sent(), Instant::now());
        let bytes = ask(&router, &address).await?;
        let (first, sent) = (begun.elapsed().as_secs_f64() * 1000.0, statements::sent() - sent);
        let mut times = Vec::new();
        for _ in 0..runs {
            let begun = Instant::now();
            ask(&router, &address).await?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        figures.push(Figure { name, first, times, most: MOST, statements: Some(sent), bytes });
    }
    Ok(figures)
}
