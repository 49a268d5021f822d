//! `latency`: how long an idle worker takes to begin a job.
//!
//! *At once*: from the answer to the enqueue, which follows its commit, to the first line of the handler. The raw
//! baseline: from the answer to an insert that notifies, to the answer to the listener's claim. *Scheduled*: from the
//! time when the job is due, by the database's clock, to the first line of the handler. All clocks are this machine's.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use diesel_jobs::prelude::*;

use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::kinds::Probe;
use crate::raw::Pickup;
use crate::report::{Line, Run, percentile};
use crate::server::Database;
use crate::worker_process::Role;

/// The time between two jobs.
pub(super) const PACE: Duration = Duration::from_millis(20);
/// Latencies up to this many milliseconds are treated as zero.
const NOTHING: f64 = 0.05;
/// How long a worker needs to become idle.
pub(super) const CALM: Duration = Duration::from_secs(2);

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const AT_ONCE: &str = "at once, commit to start";
    const SCHEDULED: &str = "scheduled, due to start";
    let mut lines = Vec::new();
    let jobs = bench.options.jobs(500);
    let line = |name| Line { n: Some(jobs), processes: Some(1), ..Line::new("latency", name, "ms") };
    if bench.options.wants(AT_ONCE) {
        let runs =
            bench.alternate(AT_ONCE, async || at_once(bench, jobs).await, async || raw(bench, jobs).await).await?;
        let mut line = line(AT_ONCE).with(&runs);
        // The raw listener often has the job before its client receives the answer to the commit. A ratio to almost
        // zero has no meaning.
        line.ratio = line.ratio.filter(|_| line.raw > Some(NOTHING));
        bench.report(&mut lines, line)?;
    }
    if bench.options.wants(SCHEDULED) {
        let runs = bench.repeat(SCHEDULED, async || scheduled(bench, jobs).await).await?;
        bench.report(&mut lines, line(SCHEDULED).with(&runs))?;
    }
    bench.finish("latency: an idle worker, one job each 20 ms; the figure is the median", &lines);
    Ok(())
}

async fn idle_worker(database: &Database<'_>) -> Result<Fleet> {
    database.settle().await?;
    let mut fleet = Fleet::run(&database.url, 1, &Role::default()).await?;
    fleet.record_for(CALM).await?;
    Ok(fleet)
}

async fn at_once(bench: &Bench, jobs: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    let mut fleet = idle_worker(&database).await?;
    let mut conn = database.connection().await?;
    let mut ticks = tokio::time::interval(PACE);
    let mut enqueued = HashMap::new();
    for _ in 0..jobs {
        ticks.tick().await;
        let id = Probe { id: 1, name: "hello".to_owned() }.enqueue(&mut conn).await?;
        enqueued.insert(id.0, now());
    }
    let waited = waited(&mut fleet, &enqueued).await?;
    drop(fleet);
    database.close().await?;
    Ok(summary(&waited))
}

/// Returns the milliseconds from each job's enqueue to its start.
pub(super) async fn waited(fleet: &mut Fleet, enqueued: &HashMap<i64, u128>) -> Result<Vec<f64>> {
    let mut waited = Vec::new();
    for _ in 0..enqueued.len() {
        let (id, started) = fleet.next_start().await?;
        let enqueued = *enqueued.get(&id).context("a job that nobody enqueued")?;
        // A worker may begin before the client has received the answer to its commit.
        waited.push(started.saturating_sub(enqueued) as f64 / 1e6);
    }
    Ok(waited)
}

async fn scheduled(bench: &Bench, jobs: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    let mut fleet = idle_worker(&database).await?;
    let mut conn = database.connection().await?;
    let mut ticks = tokio::time::interval(PACE);
    for number in 0..jobs {
        ticks.tick().await;
        // From 0.5 s to 2 s, in no order.
        let delay = Duration::from_millis(500 + number * 677 % 1500);
        Probe { id: 1, name: "hello".to_owned() }.delay(delay).enqueue(&mut conn).await?;
    }
    let mut started = HashMap::new();
    for _ in 0..jobs {
        let (id, at) = fleet.next_start().await?;
        started.insert(id, at);
    }
    drop(fleet);
    let due = "select id, (extract(epoch from run_at) * 1000000)::bigint from jobs.job";
    let mut waited = Vec::new();
    for row in database.client.query(due, &[]).await? {
        let (id, due): (i64, i64) = (row.get(0), row.get(1));
        let started = started.get(&id).context("a job that did not start")?;
        waited.push(started.saturating_sub(u128::from(due.unsigned_abs()) * 1000) as f64 / 1e6);
    }
    database.close().await?;
    Ok(summary(&waited))
}

async fn raw(bench: &Bench, jobs: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    database.settle().await?;
    let mut pickup = Pickup::connect(&database.url).await?;
    let mut ticks = tokio::time::interval(PACE);
    let mut waited = Vec::new();
    for _ in 0..jobs {
        ticks.tick().await;
        waited.push(pickup.once().await?);
    }
    drop(pickup);
    database.close().await?;
    Ok(summary(&waited))
}

pub(super) fn summary(waited: &[f64]) -> Run {
    let at = |share| percentile(waited, share);
    Run::new(at(50.0)).with("p50", at(50.0)).with("p95", at(95.0)).with("p99", at(99.0)).with("slowest", at(100.0))
}

pub(super) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
