//! The time from the commit of an enqueue to the first line of the handler, in an idle worker: in another process, and
//! in the process that enqueues.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use diesel_jobs::prelude::*;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Database, Worker};
use tokio::sync::mpsc;

use super::file::File;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::kinds::Probe;
use crate::measure::latency::{CALM, PACE, now, summary, waited};
use crate::report::{Line, Run};
use crate::worker_process::Role;

pub(super) async fn measure(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    const ACROSS: &str = "latency, commit to start";
    const WITHIN: &str = "latency within a process, commit to start";
    let jobs = bench.options.jobs(500);
    let line = |name| Line { n: Some(jobs), processes: Some(1), ..Line::new("sqlite", name, "ms") };
    if bench.options.wants(ACROSS) {
        let runs = bench.repeat(ACROSS, async || across(jobs).await).await?;
        super::report(bench, lines, line(ACROSS), &runs)?;
    }
    if bench.options.wants(WITHIN) {
        let runs = bench.repeat(WITHIN, async || within(jobs).await).await?;
        super::report(bench, lines, line(WITHIN), &runs)?;
    }
    Ok(())
}

async fn across(jobs: u64) -> Result<Run> {
    let file = File::create()?;
    let mut fleet = Fleet::run(&file.url(), 1, &Role::default()).await?;
    fleet.record_for(CALM).await?;
    let mut conn = file.connection()?;
    let mut ticks = tokio::time::interval(PACE);
    let mut enqueued = HashMap::new();
    for _ in 0..jobs {
        ticks.tick().await;
        let id = Probe { id: 1, name: "hello".to_owned() }.enqueue(&mut conn)?;
        enqueued.insert(id.0, now());
    }
    Ok(summary(&waited(&mut fleet, &enqueued).await?))
}

/// Where handlers send the times of their starts.
#[derive(Clone)]
struct Starts(mpsc::UnboundedSender<u128>);

#[job]
async fn tell(State(starts): State<Starts>) {
    // The receiver is gone only after a failure of the benchmark.
    let _ = starts.0.send(now());
}

async fn within(jobs: u64) -> Result<Run> {
    let file = File::create()?;
    let (sender, mut starts) = mpsc::unbounded_channel();
    let storage = Database::open(&file.url(), 1).await?.storage;
    let worker = Worker::builder(storage).registry(Registry::new().with::<Tell>()).state(Starts(sender)).build()?;
    let handle = worker.handle();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    tokio::time::sleep(CALM).await;
    let mut conn = file.connection()?;
    let mut ticks = tokio::time::interval(PACE);
    let mut waited = Vec::new();
    for _ in 0..jobs {
        ticks.tick().await;
        tokio::task::block_in_place(|| Tell {}.enqueue(&mut conn))?;
        let committed = now();
        let started = starts.recv().await.context("the worker has ended")?;
        waited.push(started.saturating_sub(committed) as f64 / 1e6);
    }
    handle.shutdown();
    running.await??;
    Ok(summary(&waited))
}
