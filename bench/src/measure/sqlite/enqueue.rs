//! One job at a time through one connection, each in a transaction of its own; no worker runs.

use std::time::{Duration, Instant};

use anyhow::Result;
use jobs::Enqueue as _;

use super::file::File;
use crate::bench::Bench;
use crate::kinds::Noop;
use crate::raw;
use crate::report::{Line, Run, percentile};

pub(super) async fn measure(bench: &Bench, lines: &mut Vec<Line>) -> Result<()> {
    const NAME: &str = "enqueue, 1 connection";
    if !bench.options.wants(NAME) {
        return Ok(());
    }
    let seconds = bench.options.time(4);
    let time = Duration::from_secs(seconds);
    let ours = async || {
        let file = File::create()?;
        let mut conn = file.connection()?;
        rate(time, || {
            Noop { id: 1, name: "hello".to_owned() }.enqueue(&mut conn)?;
            Ok(())
        })
    };
    let raw = async || {
        let file = File::create()?;
        let mut conn = file.connection()?;
        let enqueuer = raw::sqlite::Enqueuer::one();
        rate(time, || enqueuer.enqueue(&mut conn).map(drop))
    };
    let runs = bench.alternate(NAME, ours, raw).await?;
    let line = Line { seconds: Some(seconds), connections: Some(1), ..Line::new("sqlite", NAME, "jobs/s") };
    super::report(bench, lines, line, &runs)
}

fn rate(time: Duration, mut enqueue: impl FnMut() -> Result<()>) -> Result<Run> {
    let begun = Instant::now();
    let mut took = Vec::new();
    while begun.elapsed() < time {
        let before = Instant::now();
        enqueue()?;
        took.push(before.elapsed().as_secs_f64() * 1000.0);
    }
    let rate = took.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Run::new(rate).with("p50_ms", percentile(&took, 50.0)).with("p99_ms", percentile(&took, 99.0)))
}
