//! Clocks: one worker's clock is an hour ahead, the other's an hour behind.
//!
//! No job starts before its time, and none starts late. No job is taken from a living worker. Only the database's clock
//! counts.

use std::time::Duration;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Enqueue as _;
use diesel_jobs::enqueue::RunAt;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued};
use torture::process::{Process, Signal};
use torture::workload::{Mix, Shape, Work, Workload, new_job};

use super::fixture::{Fixture, History, START, Size};
use super::load::Load;
use super::preloaded_clock;
use super::run::Run;

/// The number of jobs for later, and the same number of jobs that are due at once.
const SHORT: Size = Size { jobs: 100, faults: 2 };
const LONG: Size = Size { jobs: 5_000, faults: 2 };
const HOUR: i64 = 3_600;
/// The pause between two enqueues of jobs for later.
const CALM: Duration = Duration::from_millis(2);
const DELAY_MILLIS: std::ops::Range<u64> = 500..6_000;
/// The numbers of jobs for later begin here.
const LATER: i64 = 1_000_000;
/// The limit for the time from a job's `run_at` to its start.
const LATE: Duration = Duration::from_millis(500);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let library = preloaded_clock::library(fixture.logs())?;
    let mut workers = Vec::new();
    for off in [HOUR, -HOUR] {
        workers.push((off, worker(fixture, &library, off).await?));
    }
    // The load needs no more slots than there are. A job that waits for a slot would be late with correct clocks, too.
    let mix = Mix { bulk: 20, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::from_millis(5));
    let mut ledger = plan(fixture, size.jobs).await?;
    ledger.extend(load.ended().await?.ledger());
    let drained = fixture.at_rest(REST).await?;
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, 2 workers x 16 slots", run.load);
    run.faults = size.faults;
    let mut early = 0;
    for job in run.record.jobs.iter().filter(|job| job.number >= LATER) {
        let start = run.record.events.iter().find(|event| event.number == job.number && event.what == "start");
        let late = start.map_or(f64::NAN, |start| (start.at - job.run_at).as_seconds_f64());
        early += usize::from(late < 0.0);
        run.recovery.push(late);
    }
    let rescued = run.record.failures.iter().filter(|failure| failure.kind == "crash").count();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(early == 0, || format!("{early} jobs started before their time"));
    run.expect(rescued == 0, || format!("{rescued} jobs of living workers were rescued"));
    run.expect_within(0.99, LATE);
    for (off, mut worker) in workers {
        let wrong = its_clock(&worker)? - Utc::now();
        run.expect((wrong.num_seconds() - off).abs() < HOUR / 2, || {
            format!(
                "a worker's clock should be off by {off} s, and is by {} s: nothing was tested",
                wrong.num_seconds()
            )
        });
        worker.signal(Signal::TERM)?;
        worker.ended(START).await?;
    }
    Ok(run)
}

/// Enqueues the jobs for later.
async fn plan(fixture: &Fixture<'_>, jobs: usize) -> Result<Vec<Enqueued>> {
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut ledger = Vec::new();
    for number in (LATER..).take(jobs) {
        let work = Work::new(number, Shape::Async);
        let mut job = new_job(&work)?;
        job.run_at = RunAt::After(Duration::from_millis(rng.random_range(DELAY_MILLIS)));
        let id = job.enqueue(&mut conn).await?;
        ledger.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
        tokio::time::sleep(CALM).await;
    }
    Ok(ledger)
}

async fn worker(fixture: &Fixture<'_>, library: &str, off: i64) -> Result<Process> {
    let environment = [("LD_PRELOAD", library), ("TORTURE_CLOCK", &off.to_string())];
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut worker = fixture.worker_with(&fixture.worker_url(), History::Quick, &args, &environment)?;
    worker.said("worker started", START).await?;
    Ok(worker)
}

/// Returns the newest time in its log.
fn its_clock(worker: &Process) -> Result<DateTime<Utc>> {
    let written = worker.written()?;
    let mut times = written.lines().rev().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    times.next().with_context(|| format!("no time in {}", worker.log().display()))
}
