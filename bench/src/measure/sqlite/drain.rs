//! Jobs enqueued before the worker starts, drained by one worker process.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::file::File;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::raw;
use crate::report::{Line, Run};
use crate::worker_process::Role;

pub(super) async fn measure(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    let jobs = bench.options.jobs(100_000);
    for (name, kind) in [("drain, 1 process, async", "noop"), ("drain, 1 process, sync", "noop_sync")] {
        if bench.options.wants(name) {
            let ours = async || ours(kind, jobs).await;
            let runs = bench.alternate(name, ours, async || raw(kind, jobs)).await?;
            let line = Line { n: Some(jobs), processes: Some(1), ..Line::new("sqlite", name, "jobs/s") };
            super::report(bench, lines, line, &runs)?;
        }
    }
    Ok(())
}

fn prepare(kind: &str, jobs: u64) -> Result<File> {
    let file = File::create()?;
    raw::sqlite::ready(&mut file.connection()?, kind, jobs)?;
    Ok(file)
}

async fn ours(kind: &str, jobs: u64) -> Result<Run> {
    let file = prepare(kind, jobs)?;
    let mut fleet = Fleet::run(&file.url(), 1, &Role::default()).await?;
    let time = fleet.until(jobs).await?;
    drop(fleet);
    check(&file, jobs)?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

fn raw(kind: &str, jobs: u64) -> Result<Run> {
    let file = prepare(kind, jobs)?;
    let mut conn = file.connection()?;
    let begun = Instant::now();
    raw::sqlite::drain(&mut conn, jobs)?;
    let time = begun.elapsed();
    check(&file, jobs)?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

fn check(file: &File, jobs: u64) -> Result<()> {
    let completed = file.count("completed")?;
    ensure!(completed == jobs.cast_signed(), "{completed} of {jobs} jobs are completed");
    Ok(())
}
