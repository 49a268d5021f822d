//! Kill storm: workers are killed at random moments, many times, while all sorts of jobs are enqueued.
//!
//! Nothing is lost, nothing is done twice, and every attempt is accounted for. The jobs of a dead worker can be claimed
//! again within the lease and a rescan.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::Promise;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, LEASE, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::recovery;
use super::run::Run;

const SHORT: Size = Size { jobs: 5_000, faults: 20 };
const LONG: Size = Size { jobs: 100_000, faults: 200 };
const WORKERS: usize = 4;
/// The limit for the time from the last kill until all jobs have ended.
const DRAINED: Duration = Duration::from_secs(60);
/// The pause between two kills.
const CALM_MILLIS: std::ops::Range<u64> = 50..450;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, Mix::default(), size.jobs), Duration::ZERO);
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    for _ in 0..size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &conn).await?;
    }
    let ledger = load.ended().await?.ledger();
    let drained = fixture.at_rest(DRAINED).await?;
    let dead = fleet.dead()?;
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots", run.load);
    run.faults = size.faults;
    run.recovery = recovery::of_crashes(&run.record);
    run.expect(drained, || format!("not drained {DRAINED:?} after the last kill"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(!run.recovery.is_empty(), || "no kill hit a job: the load was too small".to_owned());
    run.expect_within(0.99, LEASE + Duration::from_secs(2));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
