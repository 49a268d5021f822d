//! `homemade`: queues as blog posts teach to write them, compared with diesel-jobs. Each of their connections takes one
//! job at a time; diesel-jobs runs one worker with as many slots. At half-time, one in eight of their connections is
//! cut, as when a process dies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::homemade::{RECIPES, Recipe, Tally, work};
use crate::raw::seed;
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

const AT_ONCE: [usize; 4] = [1, 8, 32, 128];
const JOBS: u64 = 200_000;
const SECONDS: u64 = 10;
/// One in this many connections is cut.
const CUT: usize = 8;
/// Connections for everything else: the program itself, the worker's own, and those that the server reserves.
const OTHERS: usize = 16;
/// PostgreSQL's backends report their statistics within a second.
const COUNTED: Duration = Duration::from_millis(1500);

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    let (jobs, seconds) = (bench.options.jobs(JOBS), bench.options.time(SECONDS));
    let time = Duration::from_secs(seconds);
    for at_once in AT_ONCE {
        let (allowed, needed) = (bench.server.max_connections().await?, at_once + OTHERS);
        if allowed < needed {
            bench.note(&format!("{at_once} at once: left out; max_connections must be {needed}, it is {allowed}"));
            continue;
        }
        let name = format!("diesel-jobs, {at_once} at once");
        if bench.options.wants(&name) {
            let runs = bench.repeat(&name, async || ours(bench, at_once, jobs).await).await?;
            let line = Line { n: Some(jobs), connections: Some(at_once), ..Line::new("homemade", name, "jobs/s") };
            bench.report(&mut lines, line.with(&runs))?;
        }
        for recipe in &RECIPES {
            let name = format!("{}, {at_once} at once", recipe.name);
            if !bench.options.wants(&name) {
                continue;
            }
            let runs = bench.repeat(&name, async || theirs(bench, recipe, at_once, jobs, time).await).await?;
            let line =
                Line { seconds: Some(seconds), connections: Some(at_once), ..Line::new("homemade", name, "jobs/s") };
            bench.report(&mut lines, line.with(&runs))?;
        }
    }
    bench.finish("homemade: queues as blog posts teach to write them", &lines);
    Ok(())
}

async fn ours(bench: &Bench, at_once: usize, jobs: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    seed::ready(&database.client, "noop", jobs, 0, "0").await?;
    database.settle().await?;
    let mut fleet = Fleet::run(&database.url, 1, &Role { slots: Some(at_once), ..Role::default() }).await?;
    let took = fleet.until(jobs).await?;
    drop(fleet);
    let run = Run::new(jobs as f64 / took.as_secs_f64());
    let run = bloat(&database, run, jobs as f64, "jobs").await?;
    database.close().await?;
    Ok(run)
}

async fn theirs(bench: &Bench, recipe: &'static Recipe, at_once: usize, jobs: u64, time: Duration) -> Result<Run> {
    let database = bench.server.create().await?;
    database.client.batch_execute(recipe.table).await?;
    let fill = format!("insert into todo (id, args) select i, '{}' from generate_series(1, {jobs}) i", seed::ARGS);
    database.client.batch_execute(&fill).await?;
    database.settle().await?;

    let tally = Arc::new(Tally::new(usize::try_from(jobs)?));
    let mut hands = JoinSet::new();
    for _ in 0..at_once {
        let (url, tally) = (database.url.clone(), tally.clone());
        hands.spawn(async move { work(&url, recipe, &tally).await });
    }
    tokio::time::sleep(time / 2).await;
    cut(&database, at_once.div_ceil(CUT)).await?;
    tokio::time::sleep(time / 2).await;
    let ended = tally.ended.load(Ordering::Relaxed) as f64;
    tally.over.store(true, Ordering::Relaxed);
    while let Some(hand) = hands.join_next().await {
        hand.context("a connection failed")??;
    }

    // No job runs any more, so a job in this state is stuck.
    let stuck = match recipe.table.contains("status") {
        true => database.count("select count(*) from todo where status = 'running'").await?,
        false => 0,
    };
    let run = Run::new(ended / time.as_secs_f64())
        .with("run_twice", tally.repeated())
        .with("stuck", stuck)
        .with("conflicts", tally.conflicts.load(Ordering::Relaxed));
    let run = bloat(&database, run, ended, "public").await?;
    database.close().await?;
    Ok(run)
}

/// Cuts this many of the connections that take jobs.
async fn cut(database: &Database<'_>, number: usize) -> Result<()> {
    let sql = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' limit {number}"
    );
    database.client.batch_execute(&sql).await?;
    Ok(())
}

/// Adds the dead rows of the schema's tables, per ended job.
async fn bloat(database: &Database<'_>, run: Run, ended: f64, schema: &str) -> Result<Run> {
    tokio::time::sleep(COUNTED).await;
    let dead =
        format!("select coalesce(sum(n_dead_tup), 0)::int8 from pg_stat_user_tables where schemaname = '{schema}'");
    let dead = database.count(&dead).await? as f64;
    Ok(run.with("dead_rows_per_job", dead / ended.max(1.0)))
}
