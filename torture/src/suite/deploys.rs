//! Deploys: workers are repeatedly asked to stop at bad moments and replaced, while jobs are enqueued. Some of the jobs
//! take longer than the grace period.
//!
//! Nothing is lost, no attempt is consumed, and every worker ends within its grace period plus one second.

use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use torture::checker::Promise;
use torture::history::fault;
use torture::process::{Process, Signal};
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, START, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

const SHORT: Size = Size { jobs: 0, faults: 12 };
const LONG: Size = Size { jobs: 0, faults: 200 };
const WORKERS: usize = 3;
const GRACE: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(60);
/// The pause between two deploys: from none to long enough for a worker to have jobs.
const CALM_MILLIS: std::ops::Range<u64> = 0..900;

/// A worker that was asked to stop, and ended.
struct Stopped {
    pid: u32,
    code: i32,
    seconds: f64,
    had_started: bool,
}

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "16", "--poll-interval", "200ms", "--grace-period", "1s"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, long: 10, long_millis: 2_500, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, usize::MAX), Duration::from_millis(10));
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut stopping = JoinSet::new();
    for _ in 0..size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        let old = fleet.replace(rng.random_range(0..WORKERS))?;
        fault(&conn, "asked to stop", Some(old.id())).await?;
        stopping.spawn(stop(old));
    }
    let ledger = load.stop().await?.ledger();
    let mut all = Vec::new();
    while let Some(stopped) = stopping.join_next().await {
        all.push(stopped??);
    }
    let drained = fixture.at_rest(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots", run.load);
    run.faults = size.faults;
    run.recovery = all.iter().map(|stopped| stopped.seconds).collect();
    run.expect(drained, || format!("not drained after {REST:?}"));
    for Stopped { pid, code, seconds, had_started } in all {
        // A process that has not installed its signal handler yet is ended by the signal itself.
        run.expect(code == 0 || !had_started, || format!("process {pid} was asked to stop and ended with {code}"));
        let bar = (GRACE + Duration::from_secs(1)).as_secs_f64();
        run.expect_in_time(seconds <= bar, || {
            format!("process {pid} took {seconds:.2} s to stop, and should take {bar:.2} s")
        });
    }
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

async fn stop(mut worker: Process) -> Result<Stopped> {
    let asked = Instant::now();
    worker.signal(Signal::TERM)?;
    let code = worker.ended(START).await?;
    let seconds = asked.elapsed().as_secs_f64();
    let had_started = worker.written()?.contains("worker started");
    Ok(Stopped { pid: worker.id(), code, seconds, had_started })
}
