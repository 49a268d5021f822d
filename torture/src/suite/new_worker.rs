//! New worker: a deployment under an old snapshot, which keeps the index entries of very many deleted jobs in place.
//!
//! A worker that starts then runs jobs that are enqueued from its first second on. It also finds the jobs that were
//! enqueued before it started.

use std::time::Duration;

use anyhow::Result;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::Application;

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::{Run, quantile};
use super::steady::{steady, waits};

/// The number of jobs, half of them enqueued before the worker starts, and the number of deleted jobs, in thousands.
const SHORT: Size = Size { jobs: 200, faults: 300 };
const LONG: Size = Size { jobs: 200, faults: 10_000 };
const RATE: f64 = 100.0;
/// The limit for the time from enqueue to start. A new worker needs some of it to set its scan floors.
const FIRST: Duration = Duration::from_secs(1);
/// The limit for older jobs. A rescan finds them, and it reads the entries of all deleted jobs.
const FOUND: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    let pinned = fixture.connect().await?;
    pinned.batch_execute("begin isolation level repeatable read; select from jobs.job limit 1").await?;
    fault(&conn, "a transaction is forgotten", None).await?;
    for _ in 0..size.faults / 100 {
        conn.batch_execute(
            "begin;
             insert into jobs.ready (kind, args) select 'nothing', '{}' from generate_series(1, 100000);
             delete from jobs.ready where kind = 'nothing';
             commit",
        )
        .await?;
    }
    let half = i64::try_from(size.jobs / 2)?;
    let mut application = Application::new(fixture.url());
    steady(&mut application, 0..half, RATE).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, 1).await?;
    steady(&mut application, half..2 * half, RATE).await?;
    let drained = fixture.at_rest_within(REST).await?;
    pinned.batch_execute("commit").await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &application.ledger(), promise).await?;
    run.load = format!("{} beside {},000 long gone", run.load, size.faults);
    run.faults = 1;
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.recovery = waits(&run.record, half..2 * half);
    run.expect_within(1.0, FIRST);
    let found = quantile(&waits(&run.record, 0..half), 1.0).unwrap_or(f64::INFINITY);
    run.expect_in_time(found <= FOUND.as_secs_f64(), || {
        format!("what waited from before was found after {found:.1} s")
    });
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
