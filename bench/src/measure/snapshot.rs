//! `snapshot`: the figures while another session holds an old snapshot, so that no row that died since can be vacuumed.
//! *Saturated*: the measure `steady`; the figure is the rate of the last of twelve windows. *At 500 jobs/s*: how long a
//! claim takes, with and without such a session.

use std::time::Duration;

use anyhow::Result;
use tokio_postgres::Client;

use super::supply::Supply;
use crate::bench::Bench;
use crate::fleet::{Fleet, Timeline};
use crate::raw::{End, Flow};
use crate::report::{Line, Run, percentile};
use crate::server::{Database, connect};
use crate::worker_process::Role;

const WINDOWS: u32 = 12;
/// Jobs enqueued per second at the fixed rate.
const OFFERED: u32 = 500;

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    saturated(bench, &mut lines).await?;
    fixed_rate(bench, &mut lines).await?;
    bench.finish("snapshot: while another session holds an old snapshot", &lines);
    Ok(())
}

async fn saturated(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    const NAME: &str = "saturated, last window";
    if !bench.options.wants(NAME) {
        return Ok(());
    }
    let seconds = bench.options.time(120);
    let time = Duration::from_secs(seconds);
    let ours = async || {
        let database = bench.server.create().await?;
        database.settle().await?;
        let mut fleet = Fleet::connect(&database.url, 1, &Role::default()).await?;
        let pin = pin(&database).await?;
        let supply = Supply::ours(&database, fleet.watch()).await?;
        fleet.start().await?;
        fleet.record_for(time).await?;
        supply.stop().await?;
        let run = windows(&fleet.timeline, time);
        drop((fleet, pin));
        database.close().await?;
        Ok(run)
    };
    let raw = async || {
        let database = bench.server.create().await?;
        database.settle().await?;
        let mut flow = Flow::connect(&database.url, 1, End::Kept).await?;
        let pin = pin(&database).await?;
        let supply = Supply::raw(&database, flow.watch()).await?;
        flow.start();
        flow.record_for(time).await?;
        supply.stop().await?;
        let run = windows(&flow.timeline, time);
        drop((flow, pin));
        database.close().await?;
        Ok(run)
    };
    let runs = bench.beside_one_raw(NAME, ours, raw).await?;
    let line = Line { seconds: Some(seconds), processes: Some(1), ..Line::new("snapshot", NAME, "jobs/s") };
    bench.report(lines, line.with(&runs))
}

async fn fixed_rate(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    let seconds = bench.options.time(20);
    for (name, pinned) in [("500 jobs/s, claim p99, no snapshot", false), ("500 jobs/s, claim p99, old snapshot", true)]
    {
        if bench.options.wants(name) {
            let time = Duration::from_secs(seconds);
            let runs = bench.repeat(name, async || claims(bench, time, pinned).await).await?;
            let line = Line { seconds: Some(seconds), processes: Some(1), ..Line::new("snapshot", name, "ms") };
            bench.report(lines, line.with(&runs))?;
        }
    }
    Ok(())
}

/// Opens a session that keeps a snapshot of the database as of now, until it is dropped.
async fn pin(database: &Database<'_>) -> Result<Client> {
    let client = connect(&database.url).await?;
    client.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await?;
    Ok(client)
}

fn windows(timeline: &Timeline, time: Duration) -> Run {
    let windows = timeline.windows(time / WINDOWS, time);
    let (first, last) = (windows.first().copied().unwrap_or_default(), windows.last().copied().unwrap_or_default());
    let rounded: Vec<f64> = windows.iter().map(|rate| rate.round()).collect();
    Run::new(last).with("first", first).with("last_to_first", last / first.max(1.0)).with("windows", rounded)
}

async fn claims(bench: &Bench, time: Duration, pinned: bool) -> Result<Run> {
    let database = bench.server.create().await?;
    database.settle().await?;
    let mut fleet = Fleet::connect(&database.url, 1, &Role { time_claims: true, ..Role::default() }).await?;
    let pin = if pinned { Some(pin(&database).await?) } else { None };
    fleet.start().await?;
    let supply = Supply::steadily(&database, OFFERED).await?;
    fleet.record_for(time).await?;
    let (enqueued, completed) = (supply.enqueued() as f64, fleet.completed() as f64);
    supply.stop().await?;
    let took: Vec<f64> = fleet.claims.iter().map(|micros| micros / 1000.0).collect();
    drop((fleet, pin));
    database.close().await?;
    // By then dead rows have accumulated.
    let late = &took[took.len() / 2..];
    Ok(Run::new(percentile(&took, 99.0))
        .with("p50", percentile(&took, 50.0))
        .with("second_half_p99", percentile(late, 99.0))
        .with("enqueued_per_second", enqueued / time.as_secs_f64())
        .with("completed_per_second", completed / time.as_secs_f64())
        .with("claims", took.len()))
}
