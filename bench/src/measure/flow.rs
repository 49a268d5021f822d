//! `flow`: what limits and unique keys cost, and what batches in one transaction save. Each figure of jobs with a
//! limit, with a key or in batches is compared with that of plain jobs in the same run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use diesel_jobs::prelude::*;
use tokio::task::JoinSet;

use super::latency::{CALM, PACE, now, summary, waited};
use super::timed;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::kinds::{
    Brief, BriefLimited, Noop, NoopKeyed, NoopLimited, NoopUnique, Probe, ProbeLimited, WRITTEN, WriteInBatch, WriteOne,
};
use crate::raw::{in_turn, seed};
use crate::report::{Line, Run, percentile};
use crate::server::Database;
use crate::worker_process::Role;

/// Jobs of a drain and of a bulk enqueue.
const JOBS: u64 = 100_000;
/// Keys of the jobs that have one.
const KEYS: u64 = 10_000;
/// The limit of [`NoopLimited`] and [`BriefLimited`]. A plain job beside them runs in this many slots.
const LIMIT: usize = 10;
const CONNECTIONS: usize = 8;

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    let jobs = bench.options.jobs(JOBS);
    let name = || "hello".to_owned();
    let plain = |id| Noop { id, name: name() };
    let keyed = |id: i64| NoopKeyed { id: id % KEYS.cast_signed(), name: name() };
    let unique = |id| NoopUnique { id, name: name() };
    let keys = format!("drain, {KEYS} keys of limit 1");
    for processes in [1, 3] {
        let (role, rules) = (Role::default(), Role { rules: true, ..Role::default() });
        let variant = format!("{keys}, {processes} processes");
        let ours = async || drain(bench, jobs, processes, &rules, keyed).await;
        pair(bench, &mut lines, &variant, "jobs/s", ours, async || drain(bench, jobs, processes, &role, plain).await)
            .await?;
    }
    let role = Role { slots: Some(LIMIT), ..Role::default() };
    let rules = Role { rules: true, ..role.clone() };
    let limited = async || drain(bench, jobs, 1, &rules, |id| NoopLimited { id, name: name() }).await;
    let beside = async || drain(bench, jobs, 1, &role, plain).await;
    pair(bench, &mut lines, "drain, one key of limit 10, jobs of 0 ms", "jobs/s", limited, beside).await?;
    let limited = async || drain(bench, jobs, 1, &rules, |id| NoopLimited { id, name: name() }).await;
    let beside = async || in_tens(bench, jobs).await;
    pair(bench, &mut lines, "drain, one key of limit 10, beside raw batches of ten", "jobs/s", limited, beside).await?;
    let limited = async || drain(bench, jobs, 1, &rules, |id| BriefLimited { id, name: name() }).await;
    let beside = async || drain(bench, jobs, 1, &role, |id| Brief { id, name: name() }).await;
    pair(bench, &mut lines, "drain, one key of limit 10, jobs of 1 ms", "jobs/s", limited, beside).await?;

    let writes = bench.options.jobs(JOBS / 5);
    let role = Role::default();
    let ours = async || write(bench, writes, &role, |id| WriteInBatch { id, name: name() }).await;
    let beside = async || write(bench, writes, &role, |id| WriteOne { id, name: name() }).await;
    pair(bench, &mut lines, "transactional batches of 100, one insert for each job", "jobs/s", ours, beside).await?;

    let ours = async || enqueue(bench, keyed).await;
    pair(bench, &mut lines, "enqueue, limited", "jobs/s", ours, async || enqueue(bench, plain).await).await?;
    let ours = async || enqueue(bench, unique).await;
    pair(bench, &mut lines, "enqueue, unique", "jobs/s", ours, async || enqueue(bench, plain).await).await?;
    let ours = async || bulk(bench, jobs, keyed).await;
    pair(bench, &mut lines, "bulk, limited", "jobs/s", ours, async || bulk(bench, jobs, plain).await).await?;
    // In no order: the order of a bulk must not matter.
    let ours = async || bulk(bench, jobs, |id| unique(id * 7919 % JOBS.cast_signed())).await;
    pair(bench, &mut lines, "bulk, unique", "jobs/s", ours, async || bulk(bench, jobs, plain).await).await?;

    let rules = Role { rules: true, ..Role::default() };
    let ours = async || pick_up(bench, &rules, |id| ProbeLimited { id, name: name() }).await;
    pair(bench, &mut lines, "pick-up, limited", "ms", ours, async || {
        pick_up(bench, &Role::default(), |id| Probe { id, name: name() }).await
    })
    .await?;
    bench.finish("flow: jobs with a limit, a key or in batches in the first column, plain jobs in the second", &lines);
    Ok(())
}

/// Measures both in turns.
async fn pair(
    bench: &Bench,
    lines: &mut Vec<Line>,
    variant: &str,
    unit: &'static str,
    ours: impl AsyncFnMut() -> Result<Run>,
    plain: impl AsyncFnMut() -> Result<Run>,
) -> Result<()> {
    if !bench.options.wants(variant) {
        return Ok(());
    }
    let runs = bench.alternate(variant, ours, plain).await?;
    bench.report(lines, Line::new("flow", variant, unit).with(&runs))
}

/// Enqueues jobs, then starts the workers.
async fn drain<J: Job>(bench: &Bench, jobs: u64, processes: usize, role: &Role, job: impl Fn(i64) -> J) -> Result<Run> {
    let database = bench.server.create().await?;
    let run = drain_on(&database, jobs, processes, role, job).await?;
    database.close().await?;
    Ok(run)
}

/// Plain jobs, without a worker: hand-written claims of ten jobs, each followed by the finish of these ten.
async fn in_tens(bench: &Bench, jobs: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    seed::ready(&database.client, "noop", jobs, 0, "0").await?;
    database.settle().await?;
    let time = in_turn(&database.url, LIMIT, jobs).await?;
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// The same with jobs that each insert a row.
async fn write<J: Job>(bench: &Bench, jobs: u64, role: &Role, job: impl Fn(i64) -> J) -> Result<Run> {
    let database = bench.server.create().await?;
    database.client.batch_execute(WRITTEN).await?;
    let run = drain_on(&database, jobs, 1, role, job).await?;
    let rows = database.count("select count(*) from written").await?;
    ensure!(rows == jobs.cast_signed(), "{rows} rows of {jobs} jobs");
    database.close().await?;
    Ok(run)
}

async fn drain_on<J: Job>(
    database: &Database<'_>,
    jobs: u64,
    processes: usize,
    role: &Role,
    job: impl Fn(i64) -> J,
) -> Result<Run> {
    let mut conn = database.connection().await?;
    diesel_jobs::enqueue_all(&mut conn, (0..jobs.cast_signed()).map(&job)).await?;
    database.settle().await?;
    let mut fleet = Fleet::connect(&database.url, processes, role).await?;
    fleet.start().await?;
    let time = fleet.until(jobs).await?;
    drop(fleet);
    let left = "select (select count(*) from jobs.ready) + (select count(*) from jobs.running) + (select count(*) from jobs.held)";
    let left = database.count(left).await?;
    ensure!(left == 0, "{left} jobs are left");
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// One job at a time, each in a transaction of its own, while no worker runs.
async fn enqueue<J: Job>(bench: &Bench, job: impl Fn(i64) -> J) -> Result<Run> {
    let time = Duration::from_secs(bench.options.time(4));
    let database = bench.server.create().await?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(database.connection().await?);
    }
    database.settle().await?;
    // Built beforehand, more than can be enqueued within the time.
    let each = 2_500 * i64::try_from(time.as_secs())?;
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for (place, mut client) in (0_i64..).zip(clients) {
        let mine: Vec<J> = (place * each..(place + 1) * each).map(&job).collect();
        tasks.spawn(async move {
            let mut took = Vec::new();
            for job in mine {
                if begun.elapsed() >= time {
                    break;
                }
                took.push(timed(async { Ok(job.enqueue(&mut client).await?) }).await?);
            }
            anyhow::Ok((took, begun.elapsed()))
        });
    }
    let mut took = Vec::new();
    let mut rate = 0.0;
    while let Some(task) = tasks.join_next().await {
        let (of_task, time) = task??;
        rate += of_task.len() as f64 / time.as_secs_f64();
        took.extend(of_task);
    }
    database.close().await?;
    Ok(Run::new(rate).with("p50_ms", percentile(&took, 50.0)).with("p99_ms", percentile(&took, 99.0)))
}

/// Many jobs in one call.
async fn bulk<J: Job>(bench: &Bench, jobs: u64, job: impl Fn(i64) -> J) -> Result<Run> {
    let database = bench.server.create().await?;
    let mut conn = database.connection().await?;
    database.settle().await?;
    let begun = Instant::now();
    let answers = diesel_jobs::enqueue_all(&mut conn, (0..jobs.cast_signed()).map(job)).await?;
    let time = begun.elapsed();
    ensure!(answers.len() as u64 == jobs, "{} answers for {jobs} jobs", answers.len());
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// How long an idle worker takes to begin a job.
async fn pick_up<J: Job>(bench: &Bench, role: &Role, job: impl Fn(i64) -> J) -> Result<Run> {
    let database = bench.server.create().await?;
    database.settle().await?;
    let mut fleet = Fleet::run(&database.url, 1, role).await?;
    fleet.record_for(CALM).await?;
    let mut conn = database.connection().await?;
    let (mut ticks, mut enqueued) = (tokio::time::interval(PACE), HashMap::new());
    for number in 0..bench.options.jobs(500).cast_signed() {
        ticks.tick().await;
        let id = job(number).enqueue(&mut conn).await.context("enqueueing")?.id();
        enqueued.insert(id.0, now());
    }
    let waited = waited(&mut fleet, &enqueued).await?;
    drop(fleet);
    database.close().await?;
    Ok(summary(&waited))
}
