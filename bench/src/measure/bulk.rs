//! `bulk`: many jobs in one call, in one transaction.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::bench::Bench;
use crate::kinds::Noop;
use crate::raw::BulkEnqueuer;
use crate::report::{Line, Run};
use crate::server::Database;

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const NAME: &str = "one transaction";
    let mut lines = Vec::new();
    if bench.options.wants(NAME) {
        let jobs = usize::try_from(bench.options.jobs(100_000))?;
        let runs = bench.alternate(NAME, async || ours(bench, jobs).await, async || raw(bench, jobs).await).await?;
        let line = Line { n: Some(jobs as u64), connections: Some(1), ..Line::new("bulk", NAME, "jobs/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    bench.finish("bulk: many jobs in one call", &lines);
    Ok(())
}

async fn ours(bench: &Bench, jobs: usize) -> Result<Run> {
    let database = bench.server.create().await?;
    let mut conn = database.connection().await?;
    database.settle().await?;
    let begun = Instant::now();
    let ids = diesel_jobs::enqueue_all(&mut conn, (0..jobs).map(|_| Noop { id: 1, name: "hello".to_owned() })).await?;
    let time = begun.elapsed();
    ensure!(ids.len() == jobs, "{} ids for {jobs} jobs", ids.len());
    check(&database, jobs).await?;
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// Measures COPY too, for comparison.
async fn raw(bench: &Bench, jobs: usize) -> Result<Run> {
    let database = bench.server.create().await?;
    let mut enqueuer = BulkEnqueuer::connect(&database.url).await?;
    database.settle().await?;
    let begun = Instant::now();
    enqueuer.enqueue(jobs).await?;
    let time = begun.elapsed();
    check(&database, jobs).await?;

    database.client.batch_execute("truncate jobs.ready").await?;
    database.settle().await?;
    let begun = Instant::now();
    enqueuer.copy(jobs).await?;
    let copy = begun.elapsed();
    check(&database, jobs).await?;
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()).with("copy", jobs as f64 / copy.as_secs_f64()))
}

async fn check(database: &Database<'_>, jobs: usize) -> Result<()> {
    let there = database.count("select count(*) from jobs.ready").await?;
    ensure!(there == i64::try_from(jobs)?, "{there} of {jobs} jobs are there");
    Ok(())
}
