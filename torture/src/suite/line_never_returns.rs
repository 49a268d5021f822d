//! The line never returns: a worker's host vanishes, and with it whoever would close its connections. Its handlers were inside
//! their transactions: between statements, and in the middle of one, each with a row locked that the next attempt needs.
//!
//! Within a lease and five seconds the server has given up all of its sessions, and its jobs run elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{IntoNewJob as _, enqueue_all};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::cluster::Cluster;
use torture::history::{CommitOutcome, fault};
use torture::process::{Process, Signal};
use torture::workload::holding::{Holding, HoldingBlocking, TABLE};
use torture::workload::{Shape, Work};

use super::arena::{Arena, LEASE, START, Size, number};
use super::mutants::DEAF;
use super::not_run::NotRun;
use super::run::Run;
use super::vanishing_host::Host;

/// Jobs of each host, and how many hosts vanish.
const SHORT: Size = Size { jobs: 6, faults: 1 };
const LONG: Size = Size { jobs: 12, faults: 12 };
/// From the moment in which a host vanishes.
const BAR: Duration = Duration::from_secs(5);
/// Longer than anybody waits here.
const FOR_EVER_MILLIS: u64 = 600_000;
const REST: Duration = Duration::from_secs(40);
/// What the mutant says: what the URL sets holds.
const NO_PROBES: &str = "&keepalives=0&options=-ctcp_keepalives_idle%3D7200%20-ctcp_user_timeout%3D0%20-cclient_connection_check_interval%3D0";

pub(super) async fn run(arena: &Arena<'_>) -> Result<Run> {
    // Before the server is restarted for it.
    drop(Host::start(250).map_err(NotRun::because)?);
    let trust = arena.logs().join("hba.conf");
    fs::write(&trust, "host all all all trust\nlocal all all trust\n")?;
    fs::set_permissions(&trust, fs::Permissions::from_mode(0o644))?;
    let public = std::env::temp_dir().join(format!("jobs-torture-hba-{}.conf", std::process::id()));
    fs::copy(&trust, &public)?;
    let settings = format!("listen_addresses = '*'\nhba_file = '{}'\n", public.display());
    let cluster = Cluster::start_with(&arena.logs().join("pg"), &super::postgres()?, &settings)?;
    let ran = on(&arena.on(&cluster).await?).await;
    drop(cluster);
    fs::remove_file(&public)?;
    ran
}

async fn on(arena: &Arena<'_>) -> Result<Run> {
    let size = arena.size(SHORT, LONG);
    let conn = arena.connect().await?;
    conn.batch_execute(&format!("create table {TABLE} (number bigint primary key, lease integer)")).await?;
    let args = ["--concurrency", "32", "--poll", "200ms"];
    let (mut ledger, mut recovery, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    let is_deaf = arena.mutant().is_some_and(|mutant| mutant.mutant().name == DEAF);
    let mut last: Option<Process> = None;
    for round in 0..size.faults {
        let host = Host::start(u8::try_from(round)? + 1).map_err(NotRun::because)?;
        let mut lost = arena.worker_on(Some(&host), if is_deaf { NO_PROBES } else { "" }, &args)?;
        lost.said("worker started", START).await?;
        let works = works(round, size.jobs)?;
        let mut application = AsyncPgConnection::establish(&arena.url()).await?;
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
        // It comes only now: the first attempts are to be on the host that vanishes.
        let mut other = arena.worker_on(None, "", &args)?;
        other.said("worker started", START).await?;
        fault(&conn, "host vanished", Some(lost.id())).await?;
        let vanished = Instant::now();
        host.vanish()?;
        lost.kill()?;
        let limit = LEASE + 4 * BAR;
        // What its handlers say to the suite goes over a line of the suite's own.
        let sessions = format!(
            "select count(*) from pg_stat_activity where client_addr = '{}' and application_name like 'jobs worker%'",
            host.address()
        );
        until(&conn, &sessions, 0, limit).await?;
        recovery.push(vanished.elapsed().as_secs_f64());
        let held = format!("select count(*) from {TABLE} where lease is null");
        until(&conn, &held, 0, limit).await?;
        elsewhere.push(vanished.elapsed().as_secs_f64());
        if round + 1 < size.faults {
            other.signal(Signal::TERM)?;
            other.ended(START).await?;
        } else {
            last = Some(other);
        }
    }
    let drained = arena.at_rest_within(REST).await?;
    let mut run = Run::judge(arena, &ledger, Promise::default()).await?;
    run.load = format!("{} in open transactions of {} hosts", run.load, size.faults);
    run.faults = size.faults;
    run.recovery = [recovery, elsewhere].concat();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect_within(1.0, LEASE + BAR);
    drop(last);
    Ok(run)
}

/// Their first attempts have no end of their own.
fn works(round: usize, jobs: usize) -> Result<Vec<Work>> {
    let first = i64::try_from(round)? * 1_000 + 1;
    let shapes = [Shape::Transactional, Shape::Transactional, Shape::TransactionalBlocking].into_iter().cycle();
    Ok(shapes
        .zip(first..)
        .take(jobs)
        .map(|(shape, number)| Work::new(number, shape).lasting(FOR_EVER_MILLIS).and_later(0))
        .collect())
}

/// Waits until a query's number is this, or for so long.
async fn until(conn: &Client, sql: &str, expected: i64, limit: Duration) -> Result<()> {
    let begun = Instant::now();
    while number(conn, sql).await? != expected && begun.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
