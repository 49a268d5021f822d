//! Poison pill: jobs that kill their process, in every possible way, among ordinary jobs.
//!
//! Each pill is discarded after `max_crashes`. No other job is discarded: jobs that ran in the same process as a pill
//! still run.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Enqueue as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::Promise;
use torture::history::{CommitOutcome, Ending, Enqueued, Event};
use torture::workload::handlers::Deadly;
use torture::workload::{Mix, Poison, Shape, Work, Workload};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::recovery;
use super::run::Run;

/// The number of ordinary jobs, and of pills.
const SHORT: Size = Size { jobs: 1_000, faults: 4 };
const LONG: Size = Size { jobs: 10_000, faults: 16 };
const WORKERS: usize = 2;
const MAX_CRASHES: i32 = 3;
/// The numbers of the pills begin here.
const PILLS: i64 = 1_000_000;
const CALM_MILLIS: std::ops::Range<u64> = 0..500;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "8", "--poll-interval", "200ms", "--max-crashes", "3"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, Mix::default(), size.jobs), Duration::ZERO);
    let conn = fixture.connect().await?;
    let mut died = 0;
    let (ledger, drained) = tokio::select! {
        done = poison(fixture, load, size) => done?,
        // Restarts dead workers, as a supervisor does in each deployment.
        ended = async { loop {
            match fleet.revive(&conn).await {
                Ok(revived) => died += revived,
                Err(error) => break error,
            }
            // What is checked below does not depend on it.
            tokio::time::sleep(POLL_INTERVAL).await;
        } } => return Err(ended),
    };
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers x 8 slots", run.load);
    run.faults = died;
    run.recovery = recovery::of_crashes(&run.record);
    run.expect(drained, || "not drained".to_owned());
    let (pills, mut crashes, mut starts) = (size.faults, Vec::new(), Vec::new());
    for job in run.record.jobs.iter().filter(|job| job.number >= PILLS) {
        crashes.push(job.crashes);
        let started = |event: &&Event| event.number == job.number && event.what == "start";
        starts.push(run.record.events.iter().filter(started).count());
    }
    run.expect(crashes.len() == pills && crashes.iter().all(|crashes| *crashes == MAX_CRASHES), || {
        format!("{pills} pills were in {crashes:?} crashes, and each should be in {MAX_CRASHES}")
    });
    // A pill that is prefetched when another pill kills the process has not started, but the crash counts for it.
    run.expect(starts.iter().all(|starts| (1..=3).contains(starts)), || {
        format!("pills started {starts:?} times, and none should more than {MAX_CRASHES} times")
    });
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues the pills among the other jobs. Returns what was enqueued, and whether all of it has ended.
async fn poison(fixture: &Fixture<'_>, load: Load, size: Size) -> Result<(Vec<Enqueued>, bool)> {
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut pills = Vec::new();
    for (number, poison) in (PILLS..).zip(Poison::ALL.into_iter().cycle().take(size.faults)) {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        let work = Work::new(number, Shape::Async);
        let id = Deadly { work: work.clone(), poison }.enqueue(&mut application).await?;
        pills.push(Enqueued { ends: Ending::Discarded, ..work.enqueued(Some(id.0), CommitOutcome::Acknowledged) });
    }
    let mut ledger = load.ended().await?.ledger();
    ledger.extend(pills);
    // Each pill may need three leases, if they crash one after another. The other jobs need time, too.
    let limit = Duration::from_secs(60) + Duration::from_secs(15) * u32::try_from(size.faults)?;
    Ok((ledger, fixture.at_rest_within(limit).await?))
}
