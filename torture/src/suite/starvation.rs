//! Starvation: handlers hold every connection that a worker has for them, for longer than a lease. Then the server has
//! no connection left.
//!
//! Heartbeats have a connection of their own. So no job of a living worker is rescued, no attempt is lost, and all jobs
//! run.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use tokio_postgres::{Client, NoTls};
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Application, EnqueueCall, Mix, Shape, Work, Workload};

use super::fixture::{Fixture, History, LEASE, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

/// The number of ordinary jobs. The number of jobs in each of two workers that hold a connection for longer than a
/// lease.
const SHORT: Size = Size { jobs: 400, faults: 4 };
const LONG: Size = Size { jobs: 20_000, faults: 24 };
const CONNECTIONS: &str = "2";
/// Longer than a lease, and longer than a job waits for a connection.
const HOLD: Duration = Duration::from_secs(12);
/// The numbers of the jobs that hold connections begin here.
const HOLDERS: i64 = 1_000_000;
/// How many connections are opened at the same time.
const AT_ONCE: usize = 25;
const REST: Duration = Duration::from_secs(180);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "16", "--poll-interval", "200ms", "--connections", CONNECTIONS];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, 2).await?;
    let conn = fixture.connect().await?;
    let mut application = Application::new(fixture.url());
    fault(&conn, "handlers hold every connection", None).await?;
    let hold = u64::try_from(HOLD.as_millis())?;
    let shapes = [Shape::Transactional, Shape::TransactionalBlocking];
    let holders = shapes.into_iter().cycle().zip(HOLDERS..).take(2 * size.faults);
    let holders = holders.map(|(shape, number)| Work::new(number, shape).lasting(hold)).collect();
    application.perform(&EnqueueCall::Bulk(holders)).await?;
    let mix = Mix { transactional: 60, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::from_millis(10));
    tokio::time::sleep(LEASE).await;
    fault(&conn, "no connection is left", None).await?;
    let taken = take_all(fixture).await;
    tokio::time::sleep(2 * LEASE).await;
    let held = taken.len();
    drop(taken);
    let mut ledger = load.ended().await?.ledger();
    ledger.extend(application.ledger());
    let drained = fixture.at_rest(REST).await?;
    let dead = fleet.dead()?;
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, 2 workers x 16 slots with {CONNECTIONS} connections", run.load);
    run.faults = held;
    let rescued = run.record.failures.iter().filter(|failure| failure.kind == "crash").count();
    run.expect(held > 100, || format!("only {held} connections could be taken: nothing was tested"));
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(rescued == 0, || format!("{rescued} jobs of living workers were rescued"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Opens connections until the server refuses one. Returns them.
async fn take_all(fixture: &Fixture<'_>) -> Vec<Client> {
    let (url, mut taken) = (fixture.url(), Vec::new());
    loop {
        let answers = join_all((0..AT_ONCE).map(|_| tokio_postgres::connect(&url, NoTls))).await;
        let refused = answers.iter().any(Result::is_err);
        for (client, connection) in answers.into_iter().flatten() {
            tokio::spawn(connection);
            taken.push(client);
        }
        if refused {
            return taken;
        }
    }
}
