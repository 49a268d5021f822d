//! The gauges of the whole database, for `/metrics`. They are read in the background while metrics are requested, and
//! not by the requests, so more requests do not mean more statements.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diesel_jobs_core::storage::Operator;
use diesel_jobs_core::{Gauge, MetricsText};
use tokio::sync::Notify;

/// The time between two reads.
const EVERY: Duration = Duration::from_secs(15);
/// Older gauges are not shown: no value is better than a wrong one.
const OUTDATED: Duration = Duration::from_secs(60);

/// The gauges, and when they were read.
type Read = Arc<Mutex<Option<(Instant, Vec<Gauge>)>>>;

/// Reads the gauges each time `asked` was notified, but not too often. Runs until its task ends.
pub(super) async fn read_gauges(metrics: &MetricsText, asked: &Notify, operator: Arc<dyn Operator>) {
    let read = Read::default();
    let shown = read.clone();
    metrics.gauges(move || {
        let read = shown.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = read.as_ref().filter(|(at, _)| at.elapsed() < OUTDATED);
        fresh.map(|(_, gauges)| gauges.clone()).unwrap_or_default()
    });
    loop {
        asked.notified().await;
        match Gauge::of_database(&*operator).await {
            Ok(gauges) => *read.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), gauges)),
            Err(problem) => {
                tracing::warn!(target: "diesel_jobs", "the gauges of the database are not served: {problem}");
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
