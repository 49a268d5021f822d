//! `enqueue`: one job at a time, each in a transaction of its own, from several connections at once.
//!
//! *Workers busy*: the worker has more jobs than it can run, in another queue, so no idle worker waits for a
//! notification. *Worker idle*: the worker serves this queue, is notified, and runs the jobs during the measure.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use diesel::{Connection as _, PgConnection};
use diesel_jobs::Enqueue as _;
use tokio::task::JoinSet;

use super::timed;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::kinds::Noop;
use crate::raw::{Enqueuer, seed};
use crate::report::{Line, Run, percentile};
use crate::server::Database;
use crate::worker_process::Role;

/// How many slow jobs are enqueued. A worker cannot complete them while a variant is measured.
const SLOW: u64 = 50_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    Async(usize),
    Sync,
}

impl Client {
    fn connections(self) -> usize {
        match self {
            Self::Async(connections) => connections,
            Self::Sync => 1,
        }
    }
}

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    for (workers, busy) in [("workers busy", true), ("worker idle", false)] {
        for client in [Client::Async(1), Client::Async(8), Client::Async(16), Client::Sync] {
            let name = match client {
                Client::Async(1) => format!("1 connection, {workers}"),
                Client::Async(connections) => format!("{connections} connections, {workers}"),
                Client::Sync => format!("1 sync connection, {workers}"),
            };
            if bench.options.wants(&name) {
                let line = variant(bench, &name, client, busy).await?;
                bench.report(&mut lines, line)?;
            }
        }
    }
    bench.finish("enqueue: one job at a time, each in its own transaction", &lines);
    Ok(())
}

/// Both sides take turns on one database, so that the disk and the worker are in the same state for both.
async fn variant(bench: &Bench, name: &str, client: Client, busy: bool) -> Result<Line> {
    let seconds = bench.options.time(4);
    let time = Duration::from_secs(seconds);
    let connections = client.connections();
    let database = bench.server.create().await?;
    if busy {
        seed::slow(&database.client, SLOW).await?;
    }
    database.settle().await?;
    let mut fleet = Fleet::run(&database.url, 1, &Role { slow: busy, ..Role::default() }).await?;
    fleet.record_for(Duration::from_secs(2)).await?;
    let ours = async || match client {
        Client::Async(connections) => ours(&database, connections, time).await,
        Client::Sync => ours_sync(&database, time).await,
    };
    let runs = bench.alternate(name, ours, async || raw(&database, connections, time).await).await?;
    drop(fleet);
    database.close().await?;
    let line = Line::new("enqueue", name, "jobs/s");
    Ok(Line { seconds: Some(seconds), connections: Some(connections), ..line }.with(&runs))
}

async fn ours(database: &Database<'_>, connections: usize, time: Duration) -> Result<Run> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(database.connection().await?);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for mut client in clients {
        tasks.spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < time {
                let job = Noop { id: 1, name: "hello".to_owned() };
                took.push(timed(async { Ok(job.enqueue(&mut client).await?) }).await?);
            }
            Ok(took)
        });
    }
    rate(begun, tasks).await
}

async fn ours_sync(database: &Database<'_>, time: Duration) -> Result<Run> {
    let mut client = PgConnection::establish(&database.url).context("connecting through libpq")?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    tasks.spawn_blocking(move || {
        let mut took = Vec::new();
        while begun.elapsed() < time {
            let before = Instant::now();
            Noop { id: 1, name: "hello".to_owned() }.enqueue(&mut client)?;
            took.push(before.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(took)
    });
    rate(begun, tasks).await
}

async fn raw(database: &Database<'_>, connections: usize, time: Duration) -> Result<Run> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Enqueuer::connect(&database.url).await?);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for client in clients {
        tasks.spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < time {
                took.push(timed(client.enqueue()).await?);
            }
            Ok(took)
        });
    }
    rate(begun, tasks).await
}

/// Returns the jobs per second of all tasks. Each task returns how many milliseconds each of its jobs took.
async fn rate(begun: Instant, mut tasks: JoinSet<Result<Vec<f64>>>) -> Result<Run> {
    let mut took = Vec::new();
    while let Some(task) = tasks.join_next().await {
        took.extend(task??);
    }
    let rate = took.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Run::new(rate).with("p50_ms", percentile(&took, 50.0)).with("p99_ms", percentile(&took, 99.0)))
}
