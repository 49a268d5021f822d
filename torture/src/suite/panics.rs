//! Panics: jobs panic in each place where the user's code is called: handlers, destructors, decoding of arguments,
//! formatting of errors, backoff. They do so with each kind of handler. Ordinary jobs run at the same time.
//!
//! No worker ends, no slot is lost, and each attempt counts once. What a handler wrote before it panicked is rolled
//! back.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::enqueue_all;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued, fault};
use torture::workload::bombs::{Bomb, ways};
use torture::workload::{Application, Mix, Work, Workload};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use super::slots;

/// The number of ordinary jobs, and the number of bombs of each sort.
const SHORT: Size = Size { jobs: 200, faults: 2 };
const LONG: Size = Size { jobs: 20_000, faults: 100 };
const WORKERS: usize = 2;
const SLOTS: i64 = 8;
/// Each bomb panics this many times.
const ATTEMPTS: u16 = 2;
const BOMBS: i64 = 1_000_000;
const LAST: i64 = 2_000_000;
const REST: Duration = Duration::from_secs(60);
/// Makes waiting jobs due. Without a backoff of its own a job waits a minute, which is too long for the test.
const HURRY: &str =
    "update jobs.ready set run_at = clock_timestamp() where run_at > clock_timestamp() + interval '10 seconds'";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "8", "--poll-interval", "200ms", "--connections", "4"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, long: 0, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::from_millis(10));
    let conn = fixture.connect().await?;
    fault(&conn, "bombs", None).await?;
    let sorts = std::iter::repeat_n(Bomb::ALL, size.faults).flatten();
    let mut ledger = bombs(fixture, sorts, BOMBS).await?;
    let planted = ledger.len();
    ledger.extend(load.ended().await?.ledger());
    let mut drained = tokio::select! {
        drained = fixture.at_rest(REST) => drained?,
        gone = async {
            while fleet.dead()?.is_empty() {
                conn.batch_execute(HURRY).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok::<_, anyhow::Error>(false)
        } => gone?,
    };
    let mut last = Application::new(fixture.url());
    let slots = SLOTS * i64::try_from(WORKERS)?;
    if drained {
        drained = slots::fill(fixture, &mut last, slots, REST).await?;
        // No other job uses a connection after these. So the connections stay as these jobs left them.
        ledger.extend(bombs(fixture, [Bomb::Stopped], LAST).await?);
        drained &= fixture.at_rest(REST).await?;
    }
    ledger.extend(last.ledger());
    let dead = fleet.dead()?;

    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{}, {WORKERS} workers x {SLOTS} slots", run.load);
    run.faults = planted * usize::from(ATTEMPTS);
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(drained, || format!("not drained after {REST:?}"));
    let planned = run.record.failures.iter().filter(|failure| failure.message.contains("planned, in the")).count();
    run.expect(planned > 0, || "no failure tells of a panic".to_owned());
    slots::expect_all(&mut run, slots);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues bombs of these sorts, one for each way in which they can be run.
async fn bombs(fixture: &Fixture<'_>, sorts: impl IntoIterator<Item = Bomb>, first: i64) -> Result<Vec<Enqueued>> {
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let (mut works, mut jobs) = (Vec::new(), Vec::new());
    let all = sorts.into_iter().flat_map(|bomb| ways(bomb).into_iter().map(move |way| (bomb, way)));
    for ((bomb, (shape, make)), number) in all.zip(first..) {
        let work = Work { failures: ATTEMPTS, max_attempts: ATTEMPTS, ..Work::new(number, shape) };
        jobs.push(make(work.clone(), bomb).max_attempts(ATTEMPTS).into_new_job()?);
        works.push(work);
    }
    let ids = enqueue_all(&mut conn, jobs).await?;
    Ok(works.iter().zip(ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)).collect())
}
