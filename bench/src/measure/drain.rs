//! `drain`: jobs enqueued before the workers start. The time runs from the start signal, when every worker has
//! connected to the database, to the last finish.

use anyhow::{Result, ensure};

use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::raw::{End, Flow, seed};
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

/// Connections for a worker's transactional handlers, by default.
const HANDLERS: usize = 16;

struct Variant {
    name: &'static str,
    kind: &'static str,
    jobs: u64,
    processes: usize,
    end: End,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "1 process, async, history kept", kind: "noop", jobs: 100_000, processes: 1, end: End::Kept },
    Variant { name: "2 processes, async, history kept", kind: "noop", jobs: 100_000, processes: 2, end: End::Kept },
    Variant { name: "4 processes, async, history kept", kind: "noop", jobs: 100_000, processes: 4, end: End::Kept },
    Variant {
        name: "1 process, async, no history",
        kind: "noop_forgotten",
        jobs: 100_000,
        processes: 1,
        end: End::Forgotten,
    },
    Variant { name: "1 process, sync, history kept", kind: "noop_sync", jobs: 100_000, processes: 1, end: End::Kept },
    Variant {
        name: "1 process, transactional, history kept",
        kind: "noop_transactional",
        jobs: 10_000,
        processes: 1,
        end: End::Transactions(HANDLERS),
    },
];

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    for variant in VARIANTS.iter().filter(|variant| bench.options.wants(variant.name)) {
        let jobs = bench.options.jobs(variant.jobs);
        let runs = bench
            .alternate(
                variant.name,
                async || ours(bench, variant, jobs).await,
                async || raw(bench, variant, jobs).await,
            )
            .await?;
        let line =
            Line { n: Some(jobs), processes: Some(variant.processes), ..Line::new("drain", variant.name, "jobs/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    bench.finish("drain: jobs enqueued before the workers start", &lines);
    Ok(())
}

async fn prepare<'b>(bench: &'b Bench, variant: &Variant, jobs: u64) -> Result<Database<'b>> {
    let database = bench.server.create().await?;
    seed::ready(&database.client, variant.kind, jobs, 0, "0").await?;
    database.settle().await?;
    Ok(database)
}

async fn ours(bench: &Bench, variant: &Variant, jobs: u64) -> Result<Run> {
    let database = prepare(bench, variant, jobs).await?;
    let mut fleet = Fleet::connect(&database.url, variant.processes, &Role::default()).await?;
    fleet.start().await?;
    let time = fleet.until(jobs).await?;
    drop(fleet);
    check(&database, variant, jobs).await?;
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

async fn raw(bench: &Bench, variant: &Variant, jobs: u64) -> Result<Run> {
    let database = prepare(bench, variant, jobs).await?;
    let mut flow = Flow::connect(&database.url, variant.processes, variant.end).await?;
    flow.start();
    let time = flow.until(jobs).await?;
    drop(flow);
    check(&database, variant, jobs).await?;
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// Fails if the tables do not contain the expected rows: then the figure is not valid.
async fn check(database: &Database<'_>, variant: &Variant, jobs: u64) -> Result<()> {
    let left = database.count("select (select count(*) from jobs.ready) + (select count(*) from jobs.running)").await?;
    let history = database.count("select count(*) from jobs.finished where state = 1").await?;
    let expected = if variant.end == End::Forgotten { 0 } else { jobs.cast_signed() };
    ensure!((left, history) == (0, expected), "{left} jobs are left and {history} of {expected} are history");
    Ok(())
}
