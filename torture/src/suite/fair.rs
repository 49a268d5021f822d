//! Tenants: twenty wait for the same limit, and one of them has a hundred times the jobs of each other one. Meanwhile
//! workers are killed and the server crashes.
//!
//! While a job of a tenant waits, no other tenant has more than one admission more than this tenant. So each job is
//! admitted within a bounded number of admissions, however many jobs the large tenant has. What holds for limits holds
//! here, too: see `limits`.

mod turns;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_util::task::AbortOnDropHandle;
use torture::checker::Promise;
use torture::cluster::connect;
use torture::history::{CRASH, Enqueued, fault};
use torture::workload::{Application, EnqueueCall, Shape, Work, disturb};

use super::bodies::overlapping;
use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::limits::{LEFT, LOOK, NO_SWEEP, switch_sweep_off};
use super::run::Run;
use super::watch::Watch;
use turns::{RECORD, Turns};

/// The number of jobs is that of the large tenant.
const SHORT: Size = Size { jobs: 1_600, faults: 8 };
const LONG: Size = Size { jobs: 16_000, faults: 60 };
const WORKERS: usize = 4;
const DRAINED: Duration = Duration::from_secs(60);
const CALM_MILLIS: std::ops::Range<u64> = 300..800;
/// After this many kills the server crashes.
const KILLS_PER_CRASH: usize = 4;
/// The large tenant is the first one. The others have a hundredth of its jobs each.
const LARGE: i64 = 0;
const TENANTS: i64 = 20;
const HUNDREDTH: usize = 100;
/// Few are enough for all to wait. A killed worker keeps some of them for the time of its lease.
const MOST: u32 = 16;
const NAME: &str = "shared";
/// The pause between two enqueues of small tenants.
const PAUSE_MILLIS: std::ops::Range<u64> = 0..50;
/// How long an attempt takes.
const MILLIS: std::ops::Range<u64> = 5..30;
/// How long a permit may be free beside a job that waits for it.
const FREE: Duration = Duration::from_millis(1_500);
/// At least this many jobs must have been admitted while the large tenant waited.
const FEW: usize = 50;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    switch_sweep_off(&conn, NO_SWEEP).await?;
    conn.batch_execute(RECORD).await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut application = Application::new(fixture.url());
    let large = (1..=i64::try_from(size.jobs)?).map(|number| work(&mut rng, number, LARGE));
    application.perform(&EnqueueCall::Bulk(large.collect())).await?;
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture, LOOK, FREE);
    let small = AbortOnDropHandle::new(tokio::spawn(enqueue(fixture.url(), fixture.seed, size.jobs)));
    let mut crashes = 0;
    for kill in 1..=size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &fixture.connect().await?).await?;
        if kill % KILLS_PER_CRASH == 0 {
            // A worker that starts without a server ends with an error.
            fleet.at_work().await?;
            fault(&fixture.connect().await?, CRASH, None).await?;
            fixture.cluster.crash()?;
            fixture.cluster.restart()?;
            crashes += 1;
        }
    }
    let (told, others) = small.await??;
    let mut ledger = application.ledger();
    ledger.extend(others);
    let drained = fixture.at_rest_or_stuck(DRAINED).await?;
    let found = watch.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, LEFT).await?;
    let (at_once, beyond) = overlapping(&conn).await?;
    let turns = Turns::load(&conn).await?;
    let waits = turns.waits(&told, LARGE);
    let dead = fleet.dead()?;
    let promise = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, {TENANTS} tenants, {waits}, {WORKERS} workers x 16 slots, {} looks", run.load, found.looks);
    run.faults = size.faults + crashes;
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the permits: nothing was tested", found.looks));
    run.expect(left == 0, || format!("{left} held jobs, permits or nudges are left"));
    run.expect(at_once > 0, || "no two handlers ran at once: nothing was tested".to_owned());
    run.expect(beyond == 0, || format!("the handlers of {beyond} keys overlapped beyond the limit"));
    run.expect(waits.beside_large >= FEW, || format!("{waits}: too little was tested"));
    run.complaints.extend(found.complaints);
    run.complaints.extend(waits.complaints);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues the jobs of the small tenants, some at a time. Returns since when each job was known to wait, by its
/// number, and the record.
async fn enqueue(url: String, seed: u64, large: usize) -> Result<(BTreeMap<i64, DateTime<Utc>>, Vec<Enqueued>)> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1));
    let mut application = Application::new(url.clone());
    let mut conn = connect(&url).await?;
    let mut left: Vec<(i64, usize)> = (LARGE + 1..TENANTS).map(|tenant| (tenant, large / HUNDREDTH)).collect();
    let (mut told, mut next) = (BTreeMap::new(), i64::try_from(large)?);
    while !left.is_empty() {
        let place = rng.random_range(0..left.len());
        let (tenant, open) = left[place];
        let jobs = rng.random_range(1..=3).min(open);
        left[place].1 -= jobs;
        left.retain(|(_, open)| *open > 0);
        let works: Vec<Work> = (0..jobs)
            .map(|_| {
                next += 1;
                work(&mut rng, next, tenant)
            })
            .collect();
        let (untold, numbers): (_, Vec<i64>) = (application.untold(), works.iter().map(|work| work.number).collect());
        application.perform(&EnqueueCall::Bulk(works)).await?;
        if application.untold() == untold {
            if conn.is_closed() {
                conn = connect(&url).await?;
            }
            // Without an answer, because the server has crashed, these jobs are not compared with others.
            if let Ok(row) = conn.query_one("select clock_timestamp()", &[]).await {
                let now: DateTime<Utc> = row.get(0);
                told.extend(numbers.into_iter().map(|number| (number, now)));
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(PAUSE_MILLIS))).await;
    }
    Ok((told, application.ledger()))
}

fn work(rng: &mut StdRng, number: i64, tenant: i64) -> Work {
    let shape = Shape::ALL[rng.random_range(0..Shape::ALL.len())];
    let mut work = Work::new(number, shape).lasting(rng.random_range(MILLIS));
    if rng.random_bool(0.1) {
        disturb(rng, &mut work);
    }
    work.limited(NAME, 0, MOST).of_tenant(tenant)
}
