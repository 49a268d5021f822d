//! Database crash: the server is stopped repeatedly, as by a power failure, under load.
//!
//! All that it acknowledged exists. No worker ends. Jobs end again within seconds after the server accepts connections.

use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::{Kind, Promise, check};
use torture::history::{CRASH, fault};
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

/// The number of jobs is what is enqueued until the last crash.
const SHORT: Size = Size { jobs: 0, faults: 3 };
const LONG: Size = Size { jobs: 0, faults: 20 };
const WORKERS: usize = 3;
const REST: Duration = Duration::from_secs(60);
/// The limit for the time until a job ends after the server accepts connections.
const RESUME: Duration = Duration::from_secs(3);
/// The ranges of the times for which the server runs, and for which it is down.
const UP_MILLIS: std::ops::Range<u64> = 1_000..3_000;
const DOWN_MILLIS: std::ops::Range<u64> = 0..1_500;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, usize::MAX), Duration::from_millis(5));
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut resumed = Vec::new();
    for _ in 0..size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(UP_MILLIS))).await;
        fault(&fixture.connect().await?, CRASH, None).await?;
        fixture.cluster.crash()?;
        tokio::time::sleep(Duration::from_millis(rng.random_range(DOWN_MILLIS))).await;
        fixture.cluster.restart()?;
        resumed.push(until_work_goes_on(fixture).await?);
    }
    let ledger = load.stop().await?.ledger();
    let drained = fixture.at_rest(REST).await?;
    let dead = fleet.dead()?;
    let mut run = Run::check(fixture, &ledger, Promise { claims_may_be_forgotten: true, ..Promise::default() }).await?;
    let again = check(&run.record, Promise::default()).iter().filter(|found| found.kind == Kind::SharedLease).count();
    run.load = format!("{}, {WORKERS} workers x 16 slots; {again} lease numbers granted again", run.load);
    run.faults = size.faults;
    run.recovery = resumed;
    run.expect(drained, || format!("not drained {REST:?} after the last crash"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect_within(1.0, RESUME);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Waits until a job ends. Returns the time since the call in seconds; it is called when the server accepts
/// connections.
pub(super) async fn until_work_goes_on(fixture: &Fixture<'_>) -> Result<f64> {
    let (up, limit) = (Instant::now(), fixture.patience(REST));
    let conn = fixture.connect().await?;
    let now: chrono::DateTime<chrono::Utc> = conn.query_one("select clock_timestamp()", &[]).await?.get(0);
    let ended = "select count(*) from jobs.finished where finished_at > $1";
    while conn.query_one(ended, &[&now]).await?.get::<_, i64>(0) == 0 {
        // It is minutes if times are not judged.
        anyhow::ensure!(up.elapsed() < limit, "no job has ended {limit:?} after the server came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(up.elapsed().as_secs_f64())
}
