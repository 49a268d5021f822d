//! `backlog`: how fast the first jobs of a long queue are drained. It is also measured while many jobs are scheduled
//! for later, and with a long history.

use anyhow::Result;

use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::raw::{End, Flow, seed};
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

/// How many jobs are counted, from the start on.
const FIRST: u64 = 10_000;
/// Priorities of the scheduled jobs. The waiting jobs have priority 0.
const PRIORITIES: [i16; 5] = [-10, 0, 5, 10, 20];

struct Variant {
    name: &'static str,
    waiting: u64,
    scheduled: u64,
    history: u64,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "10,000 waiting", waiting: 10_000, scheduled: 0, history: 0 },
    Variant { name: "1,000,000 waiting", waiting: 1_000_000, scheduled: 0, history: 0 },
    Variant {
        name: "10,000 waiting, 1,000,000 scheduled in 5 priorities",
        waiting: 10_000,
        scheduled: 1_000_000,
        history: 0,
    },
    Variant { name: "10,000 waiting, 5,000,000 of history", waiting: 10_000, scheduled: 0, history: 5_000_000 },
];

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines: Vec<Line> = Vec::new();
    let first = bench.options.n.unwrap_or(FIRST);
    for variant in VARIANTS.iter().filter(|variant| bench.options.wants(variant.name)) {
        let shrink = if bench.options.quick { 10 } else { 1 };
        let database = bench.server.create().await?;
        for priority in PRIORITIES.into_iter().filter(|_| variant.scheduled > 0) {
            let share = variant.scheduled / shrink / PRIORITIES.len() as u64;
            seed::ready(&database.client, "noop", share, priority, "1 day").await?;
        }
        seed::history(&database.client, variant.history / shrink).await?;
        let waiting = if variant.waiting > FIRST { variant.waiting / shrink } else { first };
        let runs = bench
            .alternate(
                variant.name,
                async || {
                    seed::fill(&database, waiting).await?;
                    ours(&database, first).await
                },
                async || {
                    seed::fill(&database, waiting).await?;
                    raw(&database, first).await
                },
            )
            .await?;
        database.close().await?;
        let mut line = Line { n: Some(first), processes: Some(1), ..Line::new("backlog", variant.name, "jobs/s") };
        line = line.with(&runs);
        if let (Some(base), Some(rate)) = (lines.first().and_then(|line| line.ours), line.ours) {
            line.extra.insert("to_first_variant".to_owned(), (rate / base).into());
        }
        bench.report(&mut lines, line)?;
    }
    bench.finish("backlog: the first 10,000 jobs", &lines);
    Ok(())
}

async fn ours(database: &Database<'_>, first: u64) -> Result<Run> {
    let mut fleet = Fleet::run(&database.url, 1, &Role::default()).await?;
    let time = fleet.until(first).await?;
    // The worker releases its prefetched jobs, so that the next run finds no leased job.
    fleet.stop().await?;
    Ok(Run::new(first as f64 / time.as_secs_f64()))
}

async fn raw(database: &Database<'_>, first: u64) -> Result<Run> {
    let mut flow = Flow::connect(&database.url, 1, End::Kept).await?;
    flow.start();
    let time = flow.until(first).await?;
    Ok(Run::new(first as f64 / time.as_secs_f64()))
}
