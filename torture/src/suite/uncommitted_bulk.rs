//! Uncommitted bulk: a transaction enqueues very many jobs and stays open for a while. Other jobs are enqueued at a
//! steady rate.
//!
//! The other jobs start as promptly as before. When the transaction commits, its jobs run.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::{Job as _, NewJob, enqueue_all};
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::Application;
use torture::workload::handlers::Nothing;

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::Run;
use super::steady::{expect_times, steady, waits};

/// The number of other jobs while the transaction is open, and the number of jobs in the transaction, in thousands.
const SHORT: Size = Size { jobs: 500, faults: 20 };
const LONG: Size = Size { jobs: 3_000, faults: 200 };
const BASELINE: i64 = 500;
const RATE: f64 = 100.0;
const TIMES: f64 = 3.0;
const REST: Duration = Duration::from_secs(120);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, 1).await?;
    let mut application = Application::new(fixture.url());
    steady(&mut application, 0..BASELINE, RATE).await?;

    fault(&fixture.connect().await?, "a bulk that is not committed", None).await?;
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let bulk = tokio::spawn(async move {
        conn.batch_execute("begin").await?;
        for _ in 0..size.faults {
            let batch: Vec<NewJob> =
                (0..1_000).map(|_| Nothing {}.queue("default").into_new_job()).collect::<Result<_, _>>()?;
            enqueue_all(&mut conn, batch).await?;
        }
        anyhow::Ok(conn)
    });
    let stream = BASELINE..BASELINE + i64::try_from(size.jobs)?;
    steady(&mut application, stream.clone(), RATE).await?;
    bulk.await??.batch_execute("commit").await?;
    let drained = fixture.at_rest(REST).await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &application.ledger(), promise).await?;
    run.load = format!("{} at {RATE}/s beside {},000 not committed", run.load, size.faults);
    run.faults = 1;
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.recovery = waits(&run.record, stream);
    let (before, beside) = (waits(&run.record, 0..BASELINE), run.recovery.clone());
    expect_times(&mut run, "beside an uncommitted bulk", &beside, &before, TIMES);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
