//! Lost notifications: at first the workers' listening sessions are terminated every second. Then every notification is
//! dropped without an error.
//!
//! A notification is a hint. Without it a job starts within the poll interval.

use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::Promise;
use torture::history::{Record, fault};
use torture::proxy::Proxy;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;

const SHORT: Size = Size { jobs: 30, faults: 0 };
const LONG: Size = Size { jobs: 400, faults: 0 };
const POLL: Duration = Duration::from_millis(500);
const SLACK: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(30);
/// Long enough that the worker sleeps again.
const CALM_MILLIS: std::ops::Range<u64> = 100..400;
const END_LISTENERS: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and query like 'listen %'";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let proxy = Proxy::start(fixture.upstream()).await?;
    let url = fixture.url_through(proxy.port());
    let fleet = Fleet::start(fixture, url, History::Quick, &["--slots", "4", "--poll-interval", "500ms"], 1).await?;
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut application = Application::new(fixture.url());
    let mut ended = 0;
    let mut last = Instant::now();
    for job in 0..size.jobs {
        if job == size.jobs / 2 {
            fault(&conn, "notifications are lost from now on", None).await?;
            proxy.weather(|weather| weather.mute = true);
        }
        if job < size.jobs / 2 && last.elapsed() > Duration::from_secs(1) {
            fault(&conn, "listeners are ended", None).await?;
            ended += number(&conn, END_LISTENERS).await?;
            last = Instant::now();
        }
        let work = Work::new(i64::try_from(job)?, Shape::Async);
        application.perform(&EnqueueCall::Single(work)).await?;
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
    }
    let drained = fixture.at_rest(REST).await?;
    let mut run =
        Run::check(fixture, &application.ledger(), Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{}, one by one", run.load);
    run.faults = usize::try_from(ended)? + size.jobs / 2;
    run.recovery = waits(&run.record, 0);
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(ended > 0, || "no listener was there to be ended: nothing was tested".to_owned());
    run.expect_within(1.0, POLL + SLACK);
    fleet.stop().await?;
    Ok(run)
}

/// Returns the times from enqueue to start, in seconds, of the jobs with this number or a higher one.
pub(super) fn waits(record: &Record, from: i64) -> Vec<f64> {
    let started = |number| record.events.iter().find(|event| event.number == number && event.what == "start");
    let wait = |job: &torture::history::Job| Some((started(job.number)?.at - job.enqueued_at).as_seconds_f64());
    record.jobs.iter().filter(|job| job.number >= from).filter_map(wait).collect()
}
