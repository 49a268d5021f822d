//! `kit`: how many jobs that do nothing the testing kit's `drain` runs per second, on SQLite in memory, inside a test
//! transaction.

use std::time::Instant;

use anyhow::{Result, ensure};
use diesel::prelude::*;

use crate::bench::Bench;
use crate::kinds::Noop;
use crate::report::{Line, Run};

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const NAME: &str = "drain, SQLite in memory";
    let mut lines = Vec::new();
    if bench.options.wants(NAME) {
        let jobs = bench.options.jobs(10_000);
        let runs = bench.repeat(NAME, async || tokio::task::block_in_place(|| drain(jobs))).await?;
        let line = Line { n: Some(jobs), connections: Some(1), ..Line::new("kit", NAME, "jobs/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    bench.finish("kit: the testing kit's drain", &lines);
    Ok(())
}

fn drain(jobs: u64) -> Result<Run> {
    let mut conn = SqliteConnection::establish(":memory:")?;
    diesel_jobs::migrate(&mut conn)?;
    conn.begin_test_transaction()?;
    diesel_jobs::enqueue_all(&mut conn, (0..jobs).map(|_| Noop { id: 1, name: "hello".to_owned() }))?;
    let begun = Instant::now();
    let report = diesel_jobs::testing::drain(&mut conn).limit(usize::MAX).run()?;
    let time = begun.elapsed();
    ensure!(report.completed::<Noop>() as u64 == jobs, "{report}");
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}
