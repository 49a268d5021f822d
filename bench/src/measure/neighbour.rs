//! `neighbour`: what jobs cost the rest of the application. It measures pgbench's own transactions at a fixed rate.
//! Meanwhile the same server runs a given number of jobs per second, in the same database or in another one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use super::supply::Supply;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::report::{Line, Run, percentile};
use crate::server::Database;
use crate::worker_process::Role;

const RATES: [u32; 4] = [0, 100, 1_000, 10_000];
const SECONDS: u64 = 20;
/// Transactions of pgbench per second, and its connections.
const TRANSACTIONS: &str = "200";
const CLIENTS: &str = "4";
const SCALE: &str = "10";
/// How long jobs run before pgbench begins.
const LEAD: Duration = Duration::from_secs(2);

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    let seconds = bench.options.time(SECONDS);
    let pgbench = program().await?;
    for elsewhere in [false, true] {
        for rate in RATES {
            let place = if elsewhere { "in another database" } else { "in the same database" };
            let name = if rate == 0 { "no jobs".to_owned() } else { format!("{rate} jobs/s {place}") };
            if rate == 0 && elsewhere || !bench.options.wants(&name) {
                continue;
            }
            let runs = bench.repeat(&name, async || beside(bench, &pgbench, rate, elsewhere, seconds).await).await?;
            let line = Line { seconds: Some(seconds), ..Line::new("neighbour", name, "ms, p50") };
            bench.report(&mut lines, line.with(&runs))?;
        }
    }
    bench.finish(&format!("neighbour: pgbench at {TRANSACTIONS} transactions/s beside jobs"), &lines);
    Ok(())
}

async fn beside(bench: &Bench, pgbench: &Path, rate: u32, elsewhere: bool, seconds: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    let other = if elsewhere { Some(bench.server.create().await?) } else { None };
    let initialised = Command::new(pgbench).args(["--initialize", "--quiet", "--scale", SCALE, &database.url]).output();
    succeeded(&initialised.await?.status, "pgbench --initialize")?;
    database.settle().await?;

    let jobs = other.as_ref().unwrap_or(&database);
    let load = match rate {
        0 => None,
        rate => {
            let mut fleet = Fleet::run(&jobs.url, 1, &Role::default()).await?;
            let supply = Supply::in_steps(jobs, rate).await?;
            fleet.record_for(LEAD).await?;
            Some((fleet, supply))
        }
    };
    let transactions = tokio::spawn(transact(pgbench.to_owned(), database.url.clone(), seconds));
    let mut completed = 0;
    if let Some((mut fleet, supply)) = load {
        let before = fleet.completed();
        fleet.record_for(Duration::from_secs(seconds)).await?;
        completed = fleet.completed() - before;
        supply.stop().await?;
    }
    let latencies = transactions.await??;
    let run = Run::new(percentile(&latencies, 50.0))
        .with("p99_ms", percentile(&latencies, 99.0))
        .with("transactions_per_s", latencies.len() as f64 / seconds as f64)
        .with("jobs_per_s", completed as f64 / seconds as f64);
    for database in [Some(database), other].into_iter().flatten() {
        Database::close(database).await?;
    }
    Ok(run)
}

/// Runs pgbench. Returns how many milliseconds each transaction took.
async fn transact(pgbench: PathBuf, url: String, seconds: u64) -> Result<Vec<f64>> {
    let logs = tempfile::tempdir().context("a directory for pgbench's log")?;
    let time = seconds.to_string();
    let done = Command::new(pgbench)
        .args(["--client", CLIENTS, "--rate", TRANSACTIONS, "--time", &time, "--log", "--log-prefix", "log", &url])
        .current_dir(logs.path())
        .output()
        .await?;
    succeeded(&done.status, "pgbench")?;
    let mut latencies = Vec::new();
    for file in std::fs::read_dir(logs.path())? {
        let text = std::fs::read_to_string(file?.path())?;
        // Fields of a line: client, transaction, microseconds, ..
        latencies
            .extend(text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()).map(|us| us / 1000.0));
    }
    ensure!(!latencies.is_empty(), "pgbench has logged no transaction");
    Ok(latencies)
}

fn succeeded(status: &std::process::ExitStatus, what: &str) -> Result<()> {
    ensure!(status.success(), "{what} ended with {status}");
    Ok(())
}

/// Returns the path of the server's pgbench: beside `pg_config`'s other programs, or in the PATH.
async fn program() -> Result<PathBuf> {
    if let Ok(answer) = Command::new("pg_config").arg("--bindir").output().await {
        let beside = Path::new(String::from_utf8_lossy(&answer.stdout).trim()).join("pgbench");
        if beside.exists() {
            return Ok(beside);
        }
    }
    let there = Command::new("pgbench").arg("--version").output().await;
    there.context("pgbench is needed: it comes with PostgreSQL's server packages")?;
    Ok(PathBuf::from("pgbench"))
}
