//! Locked row: another session locks the row of a running job for a while, and the other slots finish their jobs.
//!
//! Only that job waits. It ends soon after the lock is released, at its only attempt.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::{DateTime, Utc};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Enqueue as _;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CommitOutcome, fault};
use torture::workload::{Mix, Shape, Work, Workload, new_job};

use super::fixture::{Fixture, History, START, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::{Run, quantile};

/// The number of jobs is what is enqueued meanwhile. The faults are the locked rows.
const SHORT: Size = Size { jobs: 0, faults: 2 };
const LONG: Size = Size { jobs: 0, faults: 6 };
/// How long a row is locked.
const HOLD: Duration = Duration::from_secs(60);
const HOLD_SHORT: Duration = Duration::from_secs(4);
/// The numbers of locked jobs begin here. No other job has such a number.
const HELD: i64 = 1_000_000;
/// The locks, one after the other.
const LOCKS: [&str; 2] = ["update", "key share"];
/// The limit for the time from the last event of a handler to the end of its job.
const FINISHED: Duration = Duration::from_secs(1);
/// The limit for the time from the release of the lock to the end of a locked job.
const LET_GO: Duration = Duration::from_secs(2);
/// The pause between two actions of the application: 16 slots on two cores can run all its jobs.
const CALM: Duration = Duration::from_millis(40);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let hold = if fixture.short { HOLD_SHORT } else { HOLD };
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &["--slots", "16"], 1).await?;
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, Mix::default(), usize::MAX), CALM);
    let (conn, mut application) = (fixture.connect().await?, AsyncPgConnection::establish(&fixture.url()).await?);
    let (mut held, mut let_go) = (Vec::new(), Vec::new());
    for (place, lock) in (HELD..).zip(LOCKS.into_iter().cycle().take(size.faults)) {
        let work = Work::new(place, Shape::Async).lasting(500);
        let id = new_job(&work)?.enqueue(&mut application).await?;
        held.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
        fault(&conn, lock, None).await?;
        let_go.push(hold_row(&conn, id.0, lock, hold).await?);
    }
    let mut ledger = load.stop().await?.ledger();
    ledger.extend(held);
    let drained = fixture.at_rest(REST).await?;
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, a worker x 16 slots", run.load);
    run.faults = size.faults;
    run.expect(drained, || format!("not drained after {REST:?}"));
    let (late, after) = waits(&run, &let_go);
    let (seen, bar) = (quantile(&late, 1.0).unwrap_or_default(), FINISHED.as_secs_f64());
    run.expect_in_time(seen <= bar, || {
        format!("the end of a job took {seen:.2} s to be written, and should {bar:.2} s")
    });
    run.expect(after.len() == size.faults, || format!("{} locked jobs ended, of {}", after.len(), size.faults));
    run.expect(after.iter().all(|after| *after >= 0.0), || "a locked job ended before its lock was gone".to_owned());
    run.recovery = after;
    run.expect_within(1.0, LET_GO);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Locks the row of this job as soon as it runs, for this long. Returns the time at which the lock was released.
async fn hold_row(conn: &Client, id: i64, lock: &str, hold: Duration) -> Result<DateTime<Utc>> {
    let begun = std::time::Instant::now();
    while number(conn, &format!("select count(*) from jobs.running where id = {id}")).await? == 0 {
        // It is minutes.
        ensure!(begun.elapsed() < START, "job {id} does not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    conn.batch_execute("begin").await?;
    let locked = conn.execute(&format!("select from jobs.running where id = {id} for {lock}"), &[]).await?;
    ensure!(locked == 1, "job {id} ended before its row was locked");
    tokio::time::sleep(hold).await;
    let let_go = conn.query_one("select clock_timestamp()", &[]).await?.get(0);
    conn.batch_execute("commit").await?;
    Ok(let_go)
}

/// Returns, in seconds, how long after their handlers' last event the other jobs ended, and how long after the release
/// of their locks the locked jobs ended.
fn waits(run: &Run, let_go: &[DateTime<Utc>]) -> (Vec<f64>, Vec<f64>) {
    let (mut late, mut after) = (Vec::new(), Vec::new());
    for job in &run.record.jobs {
        let Some(finished_at) = job.finished_at else { continue };
        if let Some(place) = job.number.checked_sub(HELD).and_then(|place| usize::try_from(place).ok()) {
            after.extend(let_go.get(place).map(|let_go| (finished_at - *let_go).as_seconds_f64()));
            continue;
        }
        let said = run.record.events.iter().filter(|event| event.number == job.number && event.what == "ok");
        if let Some(last) = said.map(|event| event.at).max() {
            late.push((finished_at - last).as_seconds_f64());
        }
    }
    (late, after)
}
