//! `steady`: one producer and one worker process. Enqueues, claims and finishes run at the same time, at saturation.

use std::time::Duration;

use anyhow::Result;

use super::supply::Supply;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::raw::{End, Flow};
use crate::report::{Line, Run};
use crate::server::{Counters, Database};
use crate::worker_process::Role;

/// PostgreSQL's backends report their statistics within a second, unless they are busy.
const COUNTED: Duration = Duration::from_millis(1500);

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const NAME: &str = "1 producer, 1 process, history kept";
    let mut lines = Vec::new();
    if bench.options.wants(NAME) {
        let seconds = bench.options.time(60);
        let time = Duration::from_secs(seconds);
        let runs = bench.alternate(NAME, async || ours(bench, time).await, async || raw(bench, time).await).await?;
        let line = Line { seconds: Some(seconds), processes: Some(1), ..Line::new("steady", NAME, "jobs/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    bench.finish("steady: enqueue, claim and finish at saturation", &lines);
    Ok(())
}

async fn ours(bench: &Bench, time: Duration) -> Result<Run> {
    let database = bench.server.create().await?;
    database.settle().await?;
    let mut fleet = Fleet::connect(&database.url, 1, &Role::default()).await?;
    let before = Counters::read(&database).await?;
    let supply = Supply::ours(&database, fleet.watch()).await?;
    fleet.start().await?;
    fleet.record_for(time).await?;
    supply.stop().await?;
    let jobs = fleet.completed();
    drop(fleet);
    let run = count(&database, before, jobs, time).await?;
    database.close().await?;
    Ok(run)
}

async fn raw(bench: &Bench, time: Duration) -> Result<Run> {
    let database = bench.server.create().await?;
    database.settle().await?;
    let mut flow = Flow::connect(&database.url, 1, End::Kept).await?;
    let before = Counters::read(&database).await?;
    let supply = Supply::raw(&database, flow.watch()).await?;
    flow.start();
    flow.record_for(time).await?;
    supply.stop().await?;
    let jobs = flow.finished();
    drop(flow);
    let run = count(&database, before, jobs, time).await?;
    database.close().await?;
    Ok(run)
}

/// Returns the rate, and what each job cost the server.
async fn count(database: &Database<'_>, before: Counters, jobs: u64, time: Duration) -> Result<Run> {
    let after = {
        tokio::time::sleep(COUNTED).await;
        Counters::read(database).await?
    };
    let jobs = jobs as f64;
    let per_job = |amount: f64| amount / jobs.max(1.0);
    Ok(Run::new(jobs / time.as_secs_f64())
        .with("wal_bytes_per_job", per_job(after.wal_bytes - before.wal_bytes))
        .with("commits_per_job", per_job(after.commits - before.commits))
        .with("dead_rows", after.dead_rows))
}
