//! Cron: workers die repeatedly, right before and right after they enqueue a tick.
//!
//! For each tick of the schedule there is exactly one job, and each of these jobs runs.

use std::time::{Duration, Instant};

use anyhow::Result;
use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::history::fault;
use torture::process::Process;

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;

/// The duration of the test in seconds. Each second is a tick.
const SHORT: Size = Size { jobs: 12, faults: 0 };
const LONG: Size = Size { jobs: 300, faults: 0 };
const WORKERS: usize = 3;
const POINTS: [&str; 2] = ["tick", "ticked"];
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_secs(60);
/// A schedule with a tick each second. It catches up all ticks, including those at which no worker ran.
const SCHEDULE: &str = "insert into jobs.schedule (name, kind, expression, timezone, catch_up, last_tick)
    values ('every second', 'tick', '* * * * * *', 'UTC', 'all', date_trunc('second', now()))";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    conn.batch_execute(SCHEDULE).await?;
    let first: DateTime<Utc> = conn.query_one("select last_tick from jobs.schedule", &[]).await?.get(0);
    let mut run = Run::default();
    let mut doomed = Vec::new();
    for _ in 0..WORKERS {
        doomed.push(doom(fixture, &mut rng)?);
    }
    let end = Instant::now() + Duration::from_secs(u64::try_from(size.jobs)?);
    while Instant::now() < end {
        for worker in &mut doomed {
            if !worker.is_alive()? {
                fault(&conn, "died at a tick", Some(worker.id())).await?;
                run.faults += 1;
                *worker = doom(fixture, &mut rng)?;
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    // The remaining workers may still die. This worker runs the remaining jobs.
    let fleet =
        Fleet::start(fixture, fixture.worker_url(), History::Quick, &["--slots", "16", "--max-crashes", "1000"], 1)
            .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    conn.batch_execute("update jobs.schedule set paused = true").await?;
    let drained = fixture.at_rest(REST).await?;
    drop(doomed);

    let last: DateTime<Utc> = conn.query_one("select last_tick from jobs.schedule", &[]).await?.get(0);
    let ticks = (last - first).num_seconds();
    let jobs = number(&conn, "select count(*) from jobs.job where kind = 'tick'").await?;
    let distinct = number(&conn, "select count(distinct run_at) from jobs.job where kind = 'tick'").await?;
    let completed = number(&conn, "select count(*) from jobs.job where kind = 'tick' and state = 'completed'").await?;
    run.load = format!("{ticks} ticks, {WORKERS} workers");
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(run.faults > 0, || "nobody died: nothing was tested".to_owned());
    run.expect(distinct == ticks, || format!("{ticks} ticks, and jobs for {distinct} of them"));
    run.expect(jobs == distinct, || format!("{distinct} ticks, and {jobs} jobs for them"));
    run.expect(completed == jobs, || format!("{jobs} jobs, and {completed} completed"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Starts a worker that dies at one of its next three ticks, before or after the enqueue.
fn doom(fixture: &Fixture<'_>, rng: &mut StdRng) -> Result<Process> {
    let plan = format!("{}:{}", POINTS[rng.random_range(0..POINTS.len())], rng.random_range(1..=3));
    let args = ["--poll-interval", "200ms", "--max-crashes", "1000"];
    fixture.worker_with(&fixture.worker_url(), History::Quick, &args, &[("JOBS_CRASH_AT", &plan)])
}
