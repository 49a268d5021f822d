//! `contention`: many worker processes with few slots each, on one queue.

use anyhow::Result;

use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::raw::{End, Flow, seed};
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

const PROCESSES: [usize; 4] = [1, 4, 16, 64];
/// Slots of each process.
const SLOTS: usize = 4;
/// Connections that a worker holds while it drains: claims and finishes, heartbeat, listener.
const CONNECTIONS: usize = 4;
/// Connections for everything else: the program itself, and those that the server reserves.
const OTHERS: usize = 10;

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    let jobs = bench.options.jobs(400_000);
    let mut peak: f64 = 0.0;
    for processes in PROCESSES {
        let name = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
        if !bench.options.wants(&name) {
            continue;
        }
        let (allowed, needed) = (bench.server.max_connections().await?, processes * CONNECTIONS + OTHERS);
        if allowed < needed {
            bench.note(&format!("{name}: left out; they need max_connections = {needed}, the server has {allowed}"));
            continue;
        }
        let runs = bench
            .alternate(&name, async || ours(bench, processes, jobs).await, async || raw(bench, processes, jobs).await)
            .await?;
        let line = Line { n: Some(jobs), processes: Some(processes), ..Line::new("contention", name, "jobs/s") };
        let mut line = line.with(&runs);
        if let Some(rate) = line.ours {
            peak = peak.max(rate);
            line.extra.insert("to_peak".to_owned(), (rate / peak).into());
        }
        bench.report(&mut lines, line)?;
    }
    bench.finish("contention: worker processes of 4 slots each", &lines);
    Ok(())
}

async fn prepare<'b>(bench: &'b Bench, jobs: u64) -> Result<Database<'b>> {
    let database = bench.server.create().await?;
    seed::ready(&database.client, "noop", jobs, 0, "0").await?;
    database.settle().await?;
    Ok(database)
}

async fn ours(bench: &Bench, processes: usize, jobs: u64) -> Result<Run> {
    let database = prepare(bench, jobs).await?;
    let mut fleet = Fleet::run(&database.url, processes, &Role { slots: Some(SLOTS), ..Role::default() }).await?;
    let time = fleet.until(jobs).await?;
    drop(fleet);
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// Uses as many connections that claim as there are processes, and as many that finish.
async fn raw(bench: &Bench, processes: usize, jobs: u64) -> Result<Run> {
    let database = prepare(bench, jobs).await?;
    let mut flow = Flow::connect(&database.url, processes, End::Kept).await?;
    flow.start();
    let time = flow.until(jobs).await?;
    drop(flow);
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}
