//! One job at a time through one connection, each in a transaction of its own. No worker runs.

use std::time::{Duration, Instant};

use anyhow::Result;
use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs::Enqueue as _;

use super::file::File;
use crate::bench::Bench;
use crate::kinds::Noop;
use crate::raw;
use crate::report::{Line, Run, percentile};

pub(super) async fn measure(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    let seconds = bench.options.time(4);
    let time = Duration::from_secs(seconds);
    for (name, wrapped) in [("enqueue, 1 connection", false), ("enqueue, 1 async connection", true)] {
        if bench.options.wants(name) {
            let ours = async || if wrapped { through_a_wrapper(time).await } else { directly(time) };
            let runs = bench.alternate(name, ours, async || raw(time)).await?;
            let line = Line { seconds: Some(seconds), connections: Some(1), ..Line::new("sqlite", name, "jobs/s") };
            super::report(bench, lines, line, &runs)?;
        }
    }
    Ok(())
}

fn directly(time: Duration) -> Result<Run> {
    let file = File::create()?;
    let mut conn = file.connection()?;
    rate(time, || {
        Noop { id: 1, name: "hello".to_owned() }.enqueue(&mut conn)?;
        Ok(())
    })
}

/// An async connection runs each statement in another thread. The raw baseline does not.
async fn through_a_wrapper(time: Duration) -> Result<Run> {
    let file = File::create()?;
    let mut conn: SyncConnectionWrapper<SqliteConnection> = SyncConnectionWrapper::new(file.connection()?);
    let begun = Instant::now();
    let mut took = Vec::new();
    while begun.elapsed() < time {
        let before = Instant::now();
        Noop { id: 1, name: "hello".to_owned() }.enqueue(&mut conn).await?;
        took.push(before.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(summary(begun, &took))
}

fn raw(time: Duration) -> Result<Run> {
    let file = File::create()?;
    let mut conn = file.connection()?;
    let enqueuer = raw::sqlite::Enqueuer::one();
    rate(time, || enqueuer.enqueue(&mut conn).map(drop))
}

fn rate(time: Duration, mut enqueue: impl FnMut() -> Result<()>) -> Result<Run> {
    let begun = Instant::now();
    let mut took = Vec::new();
    while begun.elapsed() < time {
        let before = Instant::now();
        enqueue()?;
        took.push(before.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(summary(begun, &took))
}

fn summary(begun: Instant, took: &[f64]) -> Run {
    let rate = took.len() as f64 / begun.elapsed().as_secs_f64();
    Run::new(rate).with("p50_ms", percentile(took, 50.0)).with("p99_ms", percentile(took, 99.0))
}
