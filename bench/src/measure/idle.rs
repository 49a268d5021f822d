//! `idle`: the cost of a worker without jobs. The server counts its transactions; those of the server's own
//! housekeeping are subtracted. CPU time is that of the worker process.

use std::time::Duration;

use anyhow::Result;

use super::proc;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

/// After this time a start is over, and the server has counted its transactions.
const CALM: Duration = Duration::from_secs(12);

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const NAME: &str = "1 process, default settings";
    let mut lines = Vec::new();
    if bench.options.wants(NAME) {
        let seconds = bench.options.time(30);
        let time = Duration::from_secs(seconds);
        let database = bench.server.create().await?;
        database.settle().await?;
        // Until then the server has counted the preparation of the database.
        tokio::time::sleep(CALM).await;
        let housekeeping = transactions(bench, &database, time).await?;
        let runs = bench.repeat(NAME, async || idle(bench, &database, housekeeping, time).await).await?;
        database.close().await?;
        let line = Line { seconds: Some(seconds), processes: Some(1), ..Line::new("idle", NAME, "queries/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    bench.finish("idle: a worker with nothing to do", &lines);
    Ok(())
}

async fn idle(bench: &Bench, database: &Database<'_>, housekeeping: f64, time: Duration) -> Result<Run> {
    let mut fleet = Fleet::run(&database.url, 1, &Role::default()).await?;
    fleet.record_for(CALM).await?;
    let cpu_before = proc::cpu_seconds(&fleet.pids());
    let with_worker = transactions(bench, database, time).await?;
    let cpu = proc::cpu_seconds(&fleet.pids()).zip(cpu_before).map(|(after, before)| after - before);
    fleet.stop().await?;
    let run = Run::new((with_worker - housekeeping).max(0.0)).with("housekeeping_per_second", housekeeping);
    Ok(match cpu {
        Some(cpu) => run.with("cpu_percent", cpu / time.as_secs_f64() * 100.0),
        None => run,
    })
}

/// Returns the transactions per second. The query runs in another database, so it does not count itself.
async fn transactions(bench: &Bench, database: &Database<'_>, time: Duration) -> Result<f64> {
    let before = bench.server.transactions(&database.name).await?;
    tokio::time::sleep(time).await;
    let after = bench.server.transactions(&database.name).await?;
    Ok((after - before) / time.as_secs_f64())
}
