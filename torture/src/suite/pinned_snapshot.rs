//! Pinned snapshot: an application leaves a transaction open, so vacuum can remove nothing that is deleted from now on.
//! Meanwhile jobs are enqueued and run at a steady rate. Just before, many more were.
//!
//! All jobs run at the rate at which they are enqueued, and none waits much longer for its start than before.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::{Job as _, NewJob, enqueue_all};
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::Application;
use torture::workload::handlers::Nothing;

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::{Run, quantile};
use super::steady::{share_done, steady, waits};

/// The number of jobs at the steady rate under the old snapshot, and the number of jobs just before, in thousands.
const SHORT: Size = Size { jobs: 600, faults: 10 };
const LONG: Size = Size { jobs: 300_000, faults: 100 };
/// The number of jobs before the snapshot.
const BASELINE: i64 = 300;
/// The number of jobs after the deleted ones that are not measured. The scan floor stays up to two seconds behind the
/// clock, for transactions that have not committed yet. So claims read the deleted entries for that time.
const FOLLOW: i64 = 250;
const SHORT_RATE: f64 = 100.0;
const LONG_RATE: f64 = 500.0;
/// The part of the offered rate that must be done.
const SHARE: f64 = 0.95;
/// The median and the 99th percentile of the waits under the snapshot may be this many times those before it,
const TIMES: f64 = 3.0;
/// plus this.
const NOISE: Duration = Duration::from_millis(5);
const COME_AND_GONE: &str = "begin;
    insert into jobs.ready (kind, args) select 'nothing', '{}' from generate_series(1, 300000);
    delete from jobs.ready where kind = 'nothing';
    commit";
const REST: Duration = Duration::from_secs(120);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let rate = if fixture.short { SHORT_RATE } else { LONG_RATE };
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, 1).await?;
    let mut application = Application::new(fixture.url());
    steady(&mut application, 0..BASELINE, rate).await?;
    let mut drained = fixture.at_rest(REST).await?;

    let pinned = fixture.connect().await?;
    pinned.batch_execute("begin isolation level repeatable read; select from jobs.job limit 1").await?;
    fault(&fixture.connect().await?, "a transaction is forgotten", None).await?;
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    for _ in 0..size.faults {
        // These have the priority of the measured jobs.
        let batch: Vec<NewJob> =
            (0..1_000).map(|_| Nothing {}.queue("default").into_new_job()).collect::<Result<_, _>>()?;
        enqueue_all(&mut conn, batch).await?;
    }
    // Rows of the same priority that another session inserts and deletes.
    fixture.connect().await?.batch_execute(COME_AND_GONE).await?;
    drained &= fixture.at_rest(REST).await?;
    let first = BASELINE + FOLLOW;
    steady(&mut application, BASELINE..first, rate).await?;
    let pinned_jobs = first..first + i64::try_from(size.jobs)?;
    steady(&mut application, pinned_jobs.clone(), rate).await?;
    pinned.batch_execute("commit").await?;
    drained &= fixture.at_rest(REST).await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &application.ledger(), promise).await?;
    run.load = format!("{} at {rate}/s, after {},000", run.load, size.faults);
    run.faults = 1;
    run.expect(drained, || format!("not drained after {REST:?}"));
    let before = waits(&run.record, 0..BASELINE);
    run.recovery = waits(&run.record, pinned_jobs.clone());
    for share in [0.5, 0.99] {
        let bar = TIMES * quantile(&before, share).unwrap_or(f64::NAN);
        run.expect_within(share, Duration::from_secs_f64(bar) + NOISE);
    }
    let done = share_done(&run.record, pinned_jobs, rate);
    run.expect_in_time(done >= SHARE, || format!("{:.0} % of the offered rate was done", done * 100.0));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
