//! `operating`: what operators and monitoring cost. It measures the CPU time of the worker that counts all jobs, the
//! wait of a job while a million others are retried, and the speed with and without metrics.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use diesel_jobs::operator::{Action, JobFilter};
use diesel_jobs::prelude::*;
use diesel_jobs::{Database as Jobs, JobState};
use diesel_jobs_core::storage::Chore;
use serde_json::Value;
use tokio::process::Command;

use super::latency::{PACE, now, summary, waited};
use super::proc;
use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::kinds::Probe;
use crate::raw::seed;
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

/// Jobs of the database that the sampler counts: ended and waiting ones.
const ENDED: u64 = 5_000_000;
const WAITING: u64 = 1_000_000;
/// Discarded jobs that are retried.
const DISCARDED: u64 = 1_000_000;
const DRAINED: u64 = 100_000;
/// How long an idle worker needs to become idle.
const CALM: Duration = Duration::from_secs(2);

const SAMPLER: &str = "sampler, share of a core";
const DRAIN: &str = "drain with metrics, beside without";
const ENQUEUE: &str = "enqueue with metrics, beside without";
const RETRY: &str = "pick-up during a bulk retry, beside without";

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    if bench.options.wants(SAMPLER) {
        let shrink = if bench.options.quick { 10 } else { 1 };
        let runs = bench.repeat(SAMPLER, async || sampler(bench, ENDED / shrink, WAITING / shrink).await).await?;
        bench.report(&mut lines, Line::new("operating", SAMPLER, "percent").with(&runs))?;
    }
    if bench.options.wants(DRAIN) {
        let jobs = bench.options.jobs(DRAINED);
        let with = async || drain(bench, jobs, true).await;
        let runs = bench.alternate(DRAIN, with, async || drain(bench, jobs, false).await).await?;
        bench.report(&mut lines, Line { n: Some(jobs), ..Line::new("operating", DRAIN, "jobs/s") }.with(&runs))?;
    }
    if bench.options.wants(ENQUEUE) {
        let seconds = bench.options.time(10);
        let with = async || enqueue(bench, seconds, true).await;
        let runs = bench.alternate(ENQUEUE, with, async || enqueue(bench, seconds, false).await).await?;
        let line = Line { seconds: Some(seconds), ..Line::new("operating", ENQUEUE, "jobs/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    if bench.options.wants(RETRY) {
        let jobs = bench.options.jobs(DISCARDED);
        let during = async || pick_up(bench, jobs).await;
        let runs = bench.alternate(RETRY, during, async || pick_up(bench, 0).await).await?;
        bench.report(&mut lines, Line { n: Some(jobs), ..Line::new("operating", RETRY, "ms, p99") }.with(&runs))?;
    }
    bench.finish("operating: with the cost in the first column, without it in the second", &lines);
    Ok(())
}

/// Counts all jobs once, as a worker does. Returns the CPU time of this program and of the server, as a share of the
/// time until the next count.
async fn sampler(bench: &Bench, ended: u64, waiting: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    seed::history(&database.client, ended).await?;
    seed::ready(&database.client, "noop", waiting, 0, "0").await?;
    database.settle().await?;
    let jobs = Jobs::open(&database.url, 0).await?;
    jobs.storage.check_schema().await?;
    let pids = async || -> Result<Vec<u32>> {
        let own =
            "select pid from pg_stat_activity where datname = current_database() and application_name = 'jobs worker'";
        let rows = database.client.query(own, &[]).await?;
        let servers = rows.iter().map(|row| row.get::<_, i32>(0).unsigned_abs());
        Ok(servers.chain([std::process::id()]).collect())
    };
    let pids = pids().await?;
    let (before, begun) = (proc::cpu_seconds(&pids), Instant::now());
    let counted = jobs.storage.maintain(Chore::SampleJobs, 1).await?;
    let took = begun.elapsed();
    ensure!(counted.rows == 1, "the jobs were not counted: {counted:?}");
    let rest = counted.next.context("a count says when the next one is due")?;
    let cpu = proc::cpu_seconds(&pids).zip(before).map(|(after, before)| after - before);
    drop(jobs);
    database.close().await?;
    let every = (took + rest).as_secs_f64();
    // If the CPU time is unknown, the duration of the count is used as its upper limit.
    let busy = cpu.unwrap_or(took.as_secs_f64());
    Ok(Run::new(busy / every * 100.0).with("took_s", took.as_secs_f64()).with("rest_s", rest.as_secs_f64()))
}

/// Drains a queue. With metrics, the worker records every event. It also renders the text each second, as if Prometheus
/// read it.
async fn drain(bench: &Bench, jobs: u64, observed: bool) -> Result<Run> {
    let database = bench.server.create().await?;
    seed::ready(&database.client, "noop", jobs, 0, "0").await?;
    database.settle().await?;
    let mut fleet = Fleet::connect(&database.url, 1, &Role { observed, ..Role::default() }).await?;
    fleet.start().await?;
    let time = fleet.until(jobs).await?;
    drop(fleet);
    database.close().await?;
    Ok(Run::new(jobs as f64 / time.as_secs_f64()))
}

/// The measure `enqueue` in a process of its own, because recorders of a process cannot be removed.
async fn enqueue(bench: &Bench, seconds: u64, observed: bool) -> Result<Run> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args([
        "enqueue",
        "--only",
        "8 connections, workers busy",
        "--no-raw",
        "--json",
        "--runs",
        "1",
        "--seconds",
    ]);
    command.arg(seconds.to_string()).args(observed.then_some("--observed"));
    if let Some(url) = &bench.options.database_url {
        command.env("DATABASE_URL", url);
    }
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "`enqueue` failed: {}", String::from_utf8_lossy(&output.stderr));
    let line: Value = serde_json::from_slice(&output.stdout).context("`enqueue` printed no line of JSON")?;
    Ok(Run::new(line["ours"].as_f64().context("`enqueue` printed no figure")?))
}

/// Enqueues a job each 20 ms while this many discarded jobs are retried, and returns how long they waited. The retried
/// jobs wait in a queue that no worker serves, so that only the retry itself competes with the others.
async fn pick_up(bench: &Bench, discarded: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    discard(&database, discarded).await?;
    database.settle().await?;
    let mut fleet = Fleet::run(&database.url, 1, &Role::default()).await?;
    fleet.record_for(CALM).await?;
    let retry = tokio::spawn(retry(database.url.clone(), discarded));
    let mut conn = database.connection().await?;
    let (mut ticks, mut enqueued) = (tokio::time::interval(PACE), HashMap::new());
    let least = bench.options.time(20) * 50;
    while (enqueued.len() as u64) < least || !retry.is_finished() {
        ticks.tick().await;
        let id = Probe { id: 1, name: "hello".to_owned() }.enqueue(&mut conn).await?;
        enqueued.insert(id.0, now());
    }
    let waited = waited(&mut fleet, &enqueued).await?;
    let took = retry.await??;
    drop(fleet);
    let waiting = database.count("select count(*) from jobs.ready where queue = 'retried'").await?;
    ensure!(waiting == discarded.cast_signed(), "{waiting} of {discarded} jobs were retried");
    database.close().await?;
    let mut run = summary(&waited);
    run.value = run.extra.iter().find(|(name, _)| *name == "p99").and_then(|(_, p99)| p99.as_f64()).unwrap_or_default();
    Ok(run.with("retry_s", took.as_secs_f64()))
}

async fn discard(database: &Database<'_>, jobs: u64) -> Result<()> {
    seed::history(&database.client, jobs).await?;
    database.client.batch_execute("update jobs.finished set state = 3, queue = 'retried'").await?;
    Ok(())
}

/// Retries all discarded jobs, as `worker retry --state discarded --yes` does. The worker beside it does steps, too.
async fn retry(url: String, discarded: u64) -> Result<Duration> {
    let begun = Instant::now();
    if discarded == 0 {
        return Ok(Duration::ZERO);
    }
    let jobs = Jobs::open(&url, 0).await?;
    let filter = JobFilter { states: vec![JobState::Discarded], ..JobFilter::default() };
    let id = jobs.operator.start_operation(&Action::Retry, &filter, "bench").await?;
    loop {
        let record = jobs.operator.step_operation(Some(id), diesel_jobs_core::storage::STEP).await?;
        match record {
            Some(record) if record.finished_at.is_some() => return Ok(begun.elapsed()),
            // Another session does a step at this moment, or has done the last one.
            None if jobs.operator.operation(id).await?.is_none_or(|record| record.finished_at.is_some()) => {
                return Ok(begun.elapsed());
            }
            _ => tokio::time::sleep(diesel_jobs_core::storage::BETWEEN_STEPS).await,
        }
    }
}
