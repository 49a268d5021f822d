//! The time from the commit of an enqueue to the first line of the handler, in an idle worker process.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use diesel_jobs::Enqueue as _;

use super::file::File;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::kinds::Probe;
use crate::measure::latency::{PACE, now, summary, waited};
use crate::report::{Line, Run};
use crate::worker_process::Role;

pub(super) async fn measure(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    const NAME: &str = "latency, commit to start";
    if !bench.options.wants(NAME) {
        return Ok(());
    }
    let jobs = bench.options.jobs(500);
    let runs = bench.repeat(NAME, async || latency(jobs).await).await?;
    let line = Line { n: Some(jobs), processes: Some(1), ..Line::new("sqlite", NAME, "ms") };
    super::report(bench, lines, line, &runs)
}

async fn latency(jobs: u64) -> Result<Run> {
    let file = File::create()?;
    let mut fleet = Fleet::run(&file.url(), 1, &Role::default()).await?;
    fleet.hear(Duration::from_secs(2)).await?;
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
