//! Failover: the standby takes over from the primary, which comes back as a standby. For a while, connections still
//! lead to the old primary. It answers what is read, and refuses what is written. Then new connections lead to the new
//! primary, and those to the old one stay open.
//!
//! No worker ends, and nothing that was acknowledged is lost. No attempt is consumed because a server takes no writes.
//! Jobs end again within seconds after new connections lead to the new primary.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use torture::checker::Promise;
use torture::cluster::Cluster;
use torture::history::{copy, fault};
use torture::process::lines_with;
use torture::proxy::Proxy;
use torture::workload::{Mix, Workload};

use super::database_crash::until_work_goes_on;
use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

/// The number of jobs is what is enqueued until the last failover.
const SHORT: Size = Size { jobs: 0, faults: 1 };
const LONG: Size = Size { jobs: 0, faults: 6 };
const WORKERS: usize = 3;
const CALM: Duration = Duration::from_secs(2);
/// How long connections lead to a server that takes no writes.
const READ_ONLY: Duration = Duration::from_secs(10);
/// The limit for the time until a job ends after new connections lead to the new primary.
const RESUME: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(60);
/// How PostgreSQL refuses writes of the worker and the beginning of a handler's transaction.
const REFUSALS: [&str; 2] = ["in a read-only transaction", "during recovery"];

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let [first, second] = pair(fixture)?;
    let (mut primary, mut standby) = (&first, &second);
    let mut there = fixture.on(primary).await?;
    let line = Proxy::start(there.upstream()).await?;
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(fixture, there.url_through(line.port()), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, ..Mix::default() };
    let workload = Workload::new(fixture.seed, mix, usize::MAX);
    let load = Load::start(there.url_through(line.port()), workload, Duration::from_millis(10));
    let notes = fixture.connect().await?;
    let mut resumed = Vec::new();
    for _ in 0..size.faults {
        tokio::time::sleep(CALM).await;
        until_it_follows(&there).await?;
        fault(&notes, "failover", None).await?;
        primary.stop()?;
        standby.promote().await?;
        primary.follow(standby)?;
        tokio::time::sleep(READ_ONLY).await;
        (primary, standby) = (standby, primary);
        there = lead_to(fixture, &line, primary);
        resumed.push(until_work_goes_on(&there).await?);
    }
    let application = load.stop().await?;
    let untold = application.untold();
    let drained = there.at_rest(REST).await?;
    let dead = fleet.dead()?;
    copy(&notes, &there.connect().await?).await?;
    let mut run = Run::check(&there, &application.ledger(), Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots, {untold} enqueues failed", run.load);
    run.faults = size.faults;
    run.recovery = resumed;
    let refused = lines_with(fixture.logs(), REFUSALS[0])?;
    run.expect(refused > 0, || "no write was refused: nothing was tested".to_owned());
    let blamed =
        run.record.failures.iter().filter(|failure| REFUSALS.iter().any(|text| failure.message.contains(text)));
    let blamed = blamed.count();
    run.expect(blamed == 0, || format!("{blamed} attempts were consumed because a server takes no writes"));
    run.expect(drained, || format!("not drained {REST:?} after the last failover"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect_within(1.0, RESUME);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Starts a primary and its standby. Nothing of an earlier run is left in them.
fn pair(fixture: &Fixture<'_>) -> Result<[Cluster; 2]> {
    let postgres = super::postgres()?;
    let dirs = ["primary", "standby"].map(|name| fixture.cluster.home().join(name));
    for dir in &dirs {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
    }
    let primary = Cluster::start(&dirs[0], &postgres)?;
    let standby = primary.with_standby(&dirs[1], &postgres)?;
    Ok([primary, standby])
}

/// Leads new connections to this server. Those that are open stay where they are.
fn lead_to<'c>(fixture: &Fixture<'_>, line: &Proxy, primary: &'c Cluster) -> Fixture<'c> {
    let there = fixture.at(primary);
    line.lead_to(there.upstream());
    there
}

/// Waits until the standby receives what the primary writes.
async fn until_it_follows(primary: &Fixture<'_>) -> Result<()> {
    let conn = primary.connect().await?;
    let attempt = async {
        while number(&conn, "select count(*) from pg_stat_replication where state = 'streaming'").await? == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(REST, attempt).await?
}
