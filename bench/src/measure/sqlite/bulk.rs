//! Many jobs in one call, in one transaction.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::file::File;
use crate::bench::Bench;
use crate::kinds::Noop;
use crate::raw;
use crate::report::{Line, Run};

pub(super) async fn measure(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    const NAME: &str = "bulk, one transaction";
    if !bench.options.wants(NAME) {
        return Ok(());
    }
    let jobs = usize::try_from(bench.options.jobs(100_000))?;
    let check = |file: &File, begun: Instant| {
        let time = begun.elapsed();
        let there = file.count("available")?;
        ensure!(there == i64::try_from(jobs)?, "{there} of {jobs} jobs are there");
        Ok(Run::new(jobs as f64 / time.as_secs_f64()))
    };
    let ours = async || {
        let file = File::create()?;
        let mut conn = file.connection()?;
        let begun = Instant::now();
        diesel_jobs::enqueue_all(&mut conn, (0..jobs).map(|_| Noop { id: 1, name: "hello".to_owned() }))?;
        check(&file, begun)
    };
    let raw = async || {
        let file = File::create()?;
        let mut conn = file.connection()?;
        let begun = Instant::now();
        raw::sqlite::enqueue_many(&mut conn, jobs)?;
        check(&file, begun)
    };
    let runs = bench.alternate(NAME, ours, raw).await?;
    let line = Line { n: Some(jobs as u64), connections: Some(1), ..Line::new("sqlite", NAME, "jobs/s") };
    super::report(bench, lines, line, &runs)
}
