//! The line never returns: a worker's host vanishes, so no process closes its connections. Its handlers were in their
//! transactions: between two statements, or in the middle of one. Each holds a lock on a row that the next attempt
//! needs.
//!
//! Within a lease and five seconds the server has ended all of the worker's sessions, and its jobs run on another
//! worker.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::enqueue_all;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::cluster::Cluster;
use torture::history::{CommitOutcome, fault};
use torture::process::{Process, Signal};
use torture::workload::holding::{Holding, HoldingBlocking, TABLE};
use torture::workload::{Shape, Work};

use super::fixture::{Fixture, LEASE, START, Size, number};
use super::mutants::DEAF;
use super::not_run::NotRun;
use super::run::Run;
use super::vanishing_host::Host;

/// The number of jobs for each host, and the number of hosts that vanish.
const SHORT: Size = Size { jobs: 6, faults: 1 };
const LONG: Size = Size { jobs: 12, faults: 12 };
/// The limit after the moment in which a host vanishes, in addition to a lease.
const BAR: Duration = Duration::from_secs(5);
/// Longer than any limit in this test.
const FOR_EVER_MILLIS: u64 = 600_000;
const REST: Duration = Duration::from_secs(40);
/// The URL parameters of the mutant. They switch off the probes, because the worker does not change what its URL sets.
const NO_PROBES: &str = "&keepalives=0&options=-ctcp_keepalives_idle%3D7200%20-ctcp_user_timeout%3D0%20-cclient_connection_check_interval%3D0";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    // Fails if this machine cannot make such a host, before a server is started for the test.
    drop(Host::start(250).map_err(NotRun::because)?);
    let trust = fixture.logs().join("hba.conf");
    fs::write(&trust, "host all all all trust\nlocal all all trust\n")?;
    fs::set_permissions(&trust, fs::Permissions::from_mode(0o644))?;
    let public = std::env::temp_dir().join(format!("jobs-torture-hba-{}.conf", std::process::id()));
    fs::copy(&trust, &public)?;
    let settings = format!("listen_addresses = '*'\nhba_file = '{}'\n", public.display());
    let cluster = Cluster::start_with(&fixture.logs().join("pg"), &super::postgres()?, &settings)?;
    let ran = on(&fixture.on(&cluster).await?).await;
    drop(cluster);
    fs::remove_file(&public)?;
    ran
}

async fn on(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    conn.batch_execute(&format!("create table {TABLE} (number bigint primary key, lease integer)")).await?;
    let args = ["--slots", "32", "--poll-interval", "200ms"];
    let (mut ledger, mut recovery, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    let is_deaf = fixture.mutant().is_some_and(|mutant| mutant.mutant().name == DEAF);
    let mut last: Option<Process> = None;
    let mut returned = true;
    for round in 0..size.faults {
        let host = Host::start(u8::try_from(round)? + 1).map_err(NotRun::because)?;
        let mut lost = fixture.worker_on(Some(&host), if is_deaf { NO_PROBES } else { "" }, &args)?;
        lost.said("worker started", START).await?;
        let works = works(round, size.jobs)?;
        let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
        let mut jobs = Vec::new();
        for work in &works {
            conn.execute(&format!("insert into {TABLE} values ($1)"), &[&work.number]).await?;
            jobs.push(match work.shape {
                Shape::TransactionalBlocking => HoldingBlocking { work: work.clone() }.into_new_job()?,
                _ => Holding { work: work.clone(), inside: work.number % 2 == 0 }.into_new_job()?,
            });
        }
        let ids = enqueue_all(&mut application, jobs).await?;
        ledger.extend(works.iter().zip(ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)));
        let begun =
            format!("select count(distinct number) from torture.event where what = 'start' and pid = {}", lost.id());
        until(&conn, &begun, i64::try_from(works.len())?, START).await?;
        // The second worker starts only now, so that the first attempts run on the host that vanishes.
        let mut other = fixture.worker_on(None, "", &args)?;
        other.said("worker started", START).await?;
        fault(&conn, "host vanished", Some(lost.id())).await?;
        let vanished = Instant::now();
        host.vanish()?;
        lost.kill()?;
        let limit = fixture.patience(LEASE + 4 * BAR);
        // The handlers' events are sent on connections of the suite, which are not counted.
        let sessions = format!(
            "select count(*) from pg_stat_activity where client_addr = '{}' and application_name like 'jobs worker%'",
            host.address()
        );
        returned &= until(&conn, &sessions, 0, limit).await?;
        recovery.push(vanished.elapsed().as_secs_f64());
        let held = format!("select count(*) from {TABLE} where lease is null");
        returned &= until(&conn, &held, 0, limit).await?;
        elsewhere.push(vanished.elapsed().as_secs_f64());
        if round + 1 < size.faults {
            other.signal(Signal::TERM)?;
            other.ended(START).await?;
        } else {
            last = Some(other);
        }
    }
    let drained = fixture.at_rest_within(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{} in open transactions of {} hosts", run.load, size.faults);
    run.faults = size.faults;
    run.recovery = [recovery, elsewhere].concat();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(returned, || "a vanished host still held its sessions or its jobs".to_owned());
    run.expect_within(1.0, LEASE + BAR);
    drop(last);
    Ok(run)
}

/// Returns works whose first attempt does not end by itself.
fn works(round: usize, jobs: usize) -> Result<Vec<Work>> {
    let first = i64::try_from(round)? * 1_000 + 1;
    let shapes = [Shape::Transactional, Shape::Transactional, Shape::TransactionalBlocking].into_iter().cycle();
    Ok(shapes
        .zip(first..)
        .take(jobs)
        .map(|(shape, number)| Work::new(number, shape).lasting(FOR_EVER_MILLIS).and_later(0))
        .collect())
}

/// Waits until the query returns this number, but no longer than `limit`. Returns whether it did.
async fn until(conn: &Client, sql: &str, expected: i64, limit: Duration) -> Result<bool> {
    let begun = Instant::now();
    while number(conn, sql).await? != expected {
        if begun.elapsed() > limit {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(true)
}
