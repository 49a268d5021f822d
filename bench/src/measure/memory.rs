//! `memory`: the memory of a worker process after many jobs, and with a long queue.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::proc;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::raw::seed;
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const DRAINED: &str = "after draining 100,000";
    const BACKLOG: &str = "with 1,000,000 waiting";
    let mut lines = Vec::new();
    for (name, waiting, drained) in [(DRAINED, 100_000, 100_000), (BACKLOG, 1_000_000, 100_000)] {
        if bench.options.wants(name) {
            let (waiting, drained) = (bench.options.jobs(waiting), bench.options.jobs(drained));
            let database = bench.server.create().await?;
            let runs = bench
                .repeat(name, async || {
                    seed::fill(&database, waiting).await?;
                    occupied(&database, waiting, drained).await
                })
                .await?;
            database.close().await?;
            let line = Line { n: Some(drained), processes: Some(1), ..Line::new("memory", name, "MB") };
            bench.report(&mut lines, line.with(&runs))?;
        }
    }
    bench.finish("memory: resident size of a worker process", &lines);
    Ok(())
}

async fn occupied(database: &Database<'_>, waiting: u64, drained: u64) -> Result<Run> {
    let mut fleet = Fleet::connect(&database.url, 1, &Role::default()).await?;
    let pid = *fleet.pids().first().context("the worker process is gone")?;
    let at_start = proc::megabytes(pid, "VmRSS").context("this system does not tell what a process occupies")?;
    fleet.start().await?;
    fleet.until(drained).await?;
    if waiting == drained {
        fleet.record_for(Duration::from_secs(1)).await?;
    }
    let rss = proc::megabytes(pid, "VmRSS").context("the worker process is gone")?;
    let most = proc::megabytes(pid, "VmHWM").context("the worker process is gone")?;
    fleet.stop().await?;
    Ok(Run::new(rss).with("at_start", at_start).with("most", most))
}
