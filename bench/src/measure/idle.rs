//! `idle`: the cost of a worker without jobs. The server counts its statements. CPU time is that of the worker process.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::proc;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::report::{Line, Run, Runs, tidy};
use crate::server::Database;
use crate::worker_process::Role;

struct Variant {
    name: &'static str,
    /// The seconds between two polls, unless the worker decides.
    poll_interval: Option<u64>,
    /// After this time a start is over, and the worker is idle.
    calm: Duration,
    /// The length of a run.
    seconds: u64,
}

const VARIANTS: [Variant; 2] = [
    // It polls 50 times in a run, so each service that nothing calls runs once.
    Variant { name: "1 process, default settings", poll_interval: None, calm: Duration::from_secs(12), seconds: 135 },
    Variant {
        name: "1 process, --poll-interval 5m",
        poll_interval: Some(5 * 60),
        calm: Duration::from_secs(60),
        seconds: 15 * 60,
    },
];

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    for variant in VARIANTS {
        if !bench.options.wants(variant.name) {
            continue;
        }
        let seconds = bench.options.time(variant.seconds);
        let mut databases = Vec::new();
        for _ in 0..bench.options.runs {
            let database = bench.server.create().await?;
            database.settle().await?;
            database.count_statements().await?;
            databases.push(database);
        }
        // Idle workers do not disturb each other, so all runs take place at the same time.
        let time = Duration::from_secs(seconds);
        let ours = try_join_all(databases.iter().map(|database| idle(database, &variant, time))).await?;
        for run in &ours {
            bench.note(&format!("{}: {}", variant.name, tidy(run.value)));
        }
        for database in databases {
            database.close().await?;
        }
        let line =
            Line { seconds: Some(seconds), processes: Some(1), ..Line::new("idle", variant.name, "statements/min") };
        bench.report(&mut lines, line.with(&Runs { ours, raw: Vec::new() }))?;
    }
    bench.finish("idle: a worker with nothing to do", &lines);
    Ok(())
}

async fn idle(database: &Database<'_>, variant: &Variant, time: Duration) -> Result<Run> {
    let role = Role { poll_interval: variant.poll_interval, ..Role::default() };
    let mut fleet = Fleet::run(&database.url, 1, &role).await?;
    fleet.record_for(variant.calm).await?;
    let (statements_before, cpu_before) = (database.statements().await?, proc::cpu_seconds(&fleet.pids()));
    fleet.record_for(time).await?;
    let statements = database.statements().await? - statements_before;
    let cpu = proc::cpu_seconds(&fleet.pids()).zip(cpu_before).map(|(after, before)| after - before);
    fleet.stop().await?;
    let run = Run::new(statements / time.as_secs_f64() * 60.0);
    Ok(match cpu {
        Some(cpu) => run.with("cpu_percent", cpu / time.as_secs_f64() * 100.0),
        None => run,
    })
}
