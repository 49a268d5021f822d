//! Many queues: a queue for each of a thousand tenants, all served by one worker, and ten thousand queues, served by
//! four.
//!
//! Jobs of any queue start promptly, and idle workers cause almost no load on the server.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{Enqueue as _, Job as _};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{MissedTickBehavior, interval};
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued};
use torture::process::{Process, Signal};
use torture::workload::handlers::Ordinary;
use torture::workload::{Shape, Work};

use super::fixture::{Fixture, History, START, Size};
use super::run::Run;
use super::steady::{expect_prompt, server_load, waits};
use crate::role::QUEUES;

/// The number of jobs in each phase.
const SHORT: Size = Size { jobs: 600, faults: 0 };
const LONG: Size = Size { jobs: 30_000, faults: 0 };
const RATE: f64 = 100.0;
/// The number of workers and of queues in each phase.
const PHASES: [(usize, i64); 3] = [(1, 1), (1, 1_000), (4, 10_000)];
const PROMPT: Duration = Duration::from_millis(40);
const IDLE: f64 = 0.05;
const WATCHED: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let jobs = i64::try_from(fixture.size(SHORT, LONG).jobs)?;
    let (mut ledger, mut loads, mut drained) = (Vec::new(), Vec::new(), true);
    for (phase, (workers, queues)) in (0..).zip(PHASES) {
        let mut workers = started(fixture, workers, queues).await?;
        ledger.extend(spread(fixture, phase * jobs..(phase + 1) * jobs, queues).await?);
        drained &= fixture.at_rest(REST).await?;
        loads.push(server_load(fixture, SETTLE, WATCHED).await?);
        for worker in &mut workers {
            worker.signal(Signal::TERM)?;
            worker.ended(START).await?;
        }
    }
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{} at {RATE}/s in 1, 1,000 and 10,000 queues", run.load);
    run.expect(drained, || format!("not drained after {REST:?}"));
    for ((phase, (_, queues)), load) in (0..).zip(PHASES).zip(loads) {
        let seen = waits(&run.record, phase * jobs..(phase + 1) * jobs);
        run.recovery.extend(&seen);
        expect_prompt(&mut run, &format!("in {queues} queues"), &seen, PROMPT);
        run.expect_in_time(load <= IDLE, || {
            format!("idle workers of {queues} queues take {:.1} % of a processor of the server", load * 100.0)
        });
    }
    Ok(run)
}

async fn started(fixture: &Fixture<'_>, workers: usize, queues: i64) -> Result<Vec<Process>> {
    let mut started = Vec::new();
    for _ in 0..workers {
        let number = queues.to_string();
        started.push(fixture.worker_with(
            &fixture.worker_url(),
            History::Quick,
            &["--slots", "2"],
            &[(QUEUES, &number)],
        )?);
    }
    for worker in &mut started {
        worker.said("worker started", START).await?;
    }
    Ok(started)
}

/// Enqueues jobs at the steady rate, each in a random one of these queues.
async fn spread(fixture: &Fixture<'_>, numbers: std::ops::Range<i64>, queues: i64) -> Result<Vec<Enqueued>> {
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut ticks = interval(Duration::from_secs_f64(1.0 / RATE));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut ledger = Vec::new();
    for number in numbers {
        ticks.tick().await;
        let work = Work::new(number, Shape::Async);
        let job = Ordinary { work: work.clone() }.queue(format!("tenant-{}", rng.random_range(0..queues)));
        let id = job.enqueue(&mut conn).await?;
        ledger.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
    }
    Ok(ledger)
}
