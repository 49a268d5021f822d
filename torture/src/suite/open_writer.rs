//! Open writer: transactions that have written something stay open, so vacuum can remove nothing that is deleted from
//! now on. One is an application's, one is prepared, and one is of a transactional handler that takes long. Meanwhile
//! jobs are enqueued and run at a steady rate. Just before, many more were inserted and deleted.
//!
//! All jobs run at the rate at which they are enqueued, and start promptly.

use std::time::Duration;

use anyhow::Result;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::Run;
use super::steady::{expect_prompt, share_done, steady, waits};

/// The number of jobs at the steady rate while the transactions are open, and the number that is inserted and deleted
/// just before, in thousands. The first claims step over what was deleted: about ten jobs wait for that. The jobs are
/// so many that these are less than one in a hundred.
const SHORT: Size = Size { jobs: 1_500, faults: 100 };
const LONG: Size = Size { jobs: 300_000, faults: 300 };
const BASELINE: i64 = 300;
const SHORT_RATE: f64 = 100.0;
const LONG_RATE: f64 = 500.0;
const SHARE: f64 = 0.95;
const PROMPT: Duration = Duration::from_millis(20);
/// The number of the job whose handler holds a transaction open.
const SLOW: i64 = 5_000_000;
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let rate = if fixture.short { SHORT_RATE } else { LONG_RATE };
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, 1).await?;
    let mut application = Application::new(fixture.url());
    steady(&mut application, 0..BASELINE, rate).await?;
    let mut drained = fixture.at_rest(REST).await?;

    let conn = fixture.connect().await?;
    fault(&conn, "transactions stay open", None).await?;
    conn.batch_execute("create table public.import (row bigint)").await?;
    let plain = fixture.connect().await?;
    plain.batch_execute("begin; insert into public.import values (1)").await?;
    conn.batch_execute("begin; insert into public.import values (2); prepare transaction 'forgotten'").await?;
    let numbers = BASELINE..BASELINE + i64::try_from(size.jobs)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "milliseconds"
    )]
    let millis = (size.jobs as f64 / rate * 1000.0) as u64;
    let slow = Work::new(SLOW, Shape::Transactional).lasting(millis);
    application.perform(&EnqueueCall::Single(slow)).await?;
    conn.batch_execute(&format!(
        "begin;
         insert into jobs.ready (kind, args) select 'nothing', '{{}}' from generate_series(1, {});
         delete from jobs.ready where kind = 'nothing';
         commit",
        size.faults * 1000
    ))
    .await?;
    steady(&mut application, numbers.clone(), rate).await?;
    plain.batch_execute("commit").await?;
    conn.batch_execute("commit prepared 'forgotten'").await?;
    drained &= fixture.at_rest(REST).await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &application.ledger(), promise).await?;
    run.load = format!("{} at {rate}/s beside three open writers, after {},000", run.load, size.faults);
    run.faults = 3;
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.recovery = waits(&run.record, numbers.clone());
    let beside = run.recovery.clone();
    expect_prompt(&mut run, "beside open writers", &beside, PROMPT);
    let done = share_done(&run.record, numbers, rate);
    run.expect_in_time(done >= SHARE, || format!("{:.0} % of the offered rate was done", done * 100.0));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
