//! `bulk`: many jobs through each system's bulk function in one transaction.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{Bench, Collected, turns};
use crate::database::Database;
use crate::handler::Payload;
use crate::name::Name;
use crate::report::{Report, progress};
use crate::systems;

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.distinct();
    let n = bench.args.n;
    let mut rates = Collected::default();
    for system in turns(&systems, bench.runs(3)) {
        let database = bench.server.with_jobs(system, 0, async |_| Ok(())).await?;
        let rate = bulk(system, &database, n).await;
        bench.server.drop(database).await?;
        let Some(rate) = rates.unless_failed(system, rate)? else { continue };
        progress(&format!("bulk {}: {rate:.0} jobs/s", system.text()));
        rates.add(system, rate);
    }
    let figures = rates.figures(&systems);
    bench.print(&Report { measure: "bulk", variant: "one transaction".into(), unit: "jobs/s", n: Some(n), figures });
    Ok(())
}

async fn bulk(system: Name, database: &Database, n: usize) -> Result<f64> {
    let mut producer = systems::of(system).producer(&database.url).await?;
    // The connection's first call prepares the statements. Later calls only run them.
    producer.many(Payload::many(1)).await?;
    let jobs = Payload::many(n);
    let start = Instant::now();
    producer.many(jobs).await?;
    let rate = n as f64 / start.elapsed().as_secs_f64();
    let waiting = database.left(system).await?;
    ensure!(waiting == n as i64 + 1, "{} has {waiting} waiting jobs of {n} and one", system.text());
    Ok(rate)
}
