//! Backend killer: a job crashes the server right after its claim, before the claim is on the disk.
//!
//! The crash undoes the first claim, and its attempt is not counted. After the crash, claims wait for the disk. So the
//! job uses up its attempts and is discarded. No other job is lost.

use std::time::{Duration, Instant};

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{Enqueue as _, Job as _, JobId, enqueue_all};
use torture::checker::Promise;
use torture::cluster::connect;
use torture::history::{CRASH, CommitOutcome, Ending, Enqueued, fault};
use torture::workload::handlers::KillsBackend;
use torture::workload::{Shape, Work, new_job};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::Run;

/// The other jobs per killer, and the number of killers.
const SHORT: Size = Size { jobs: 20, faults: 1 };
const LONG: Size = Size { jobs: 100, faults: 5 };
const WORKERS: usize = 2;
/// Attempts of a killer.
const ATTEMPTS: u16 = 6;
/// A killer crashes the server once per attempt, and once more for the claim that the crash undoes. An interruption
/// consumes no attempt if fewer than three claims before it consumed none, so up to three crashes are not counted. It
/// depends on the snoozes before the first crashes how many.
const CRASHES: usize = ATTEMPTS as usize + 1 + 3;
/// The duration of the other jobs. They are running when the server crashes, and have nothing to write.
const OTHERS_MILLIS: u64 = 1_500;
/// The numbers of the killers begin here. No other job has such a number.
const KILLERS: i64 = 1_000_000;
/// After this time all other jobs have started.
const CALM: Duration = Duration::from_millis(600);
const ENDS: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "64", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let (mut ledger, mut crashes, mut took) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..size.faults {
        let from = i64::try_from(place * size.jobs)?;
        ledger.extend(others(fixture, from, size.jobs).await?);
        tokio::time::sleep(CALM).await;
        fault(&fixture.connect().await?, CRASH, None).await?;
        let (log, begun, limit) = (fixture.cluster.log_length()?, Instant::now(), fixture.patience(ENDS));
        let (id, killer) = killer(fixture, KILLERS + i64::try_from(place)?).await?;
        ledger.push(killer);
        while !has_ended(fixture, id).await && killed(fixture, log)? <= CRASHES && begun.elapsed() < limit {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        took.push(begun.elapsed().as_secs_f64());
        crashes.push(killed(fixture, log)?);
        if crashes.iter().any(|crashes| *crashes > CRASHES) {
            break;
        }
    }
    let ended = crashes.iter().all(|crashes| (1..=CRASHES).contains(crashes));
    // A killer that does not end would crash the server for ever, so the workers are stopped.
    let fleet = ended.then_some(fleet);
    let drained = ended && fixture.at_rest(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise { claims_may_be_forgotten: true, ..Promise::default() }).await?;
    run.load = format!("{}, {WORKERS} workers x 64 slots", run.load);
    run.faults = crashes.iter().sum();
    run.recovery = took;
    run.expect(ended, || {
        format!(
            "killers with {ATTEMPTS} attempts crashed the server {crashes:?} times, and each should at most {CRASHES}"
        )
    });
    run.expect(drained, || "not drained".to_owned());
    run.expect_within(1.0, ENDS);
    if let Some(fleet) = fleet.filter(|_| drained) {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues jobs that crash nothing.
async fn others(fixture: &Fixture<'_>, from: i64, jobs: usize) -> Result<Vec<Enqueued>> {
    let works: Vec<Work> =
        (from..).take(jobs).map(|number| Work::new(number, Shape::Async).lasting(OTHERS_MILLIS)).collect();
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let ids = enqueue_all(&mut application, works.iter().map(new_job).collect::<Result<Vec<_>, _>>()?).await?;
    Ok(works.iter().zip(ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)).collect())
}

async fn killer(fixture: &Fixture<'_>, number: i64) -> Result<(JobId, Enqueued)> {
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let work = Work { max_attempts: ATTEMPTS, failures: ATTEMPTS, ..Work::new(number, Shape::Async) };
    let id = KillsBackend { work: work.clone() }.max_attempts(ATTEMPTS).enqueue(&mut application).await?;
    Ok((*id, Enqueued { ends: Ending::Discarded, ..work.enqueued(Some(id.0), CommitOutcome::Acknowledged) }))
}

/// Whether this job has ended. `false` if the server does not answer.
async fn has_ended(fixture: &Fixture<'_>, id: JobId) -> bool {
    let Ok(conn) = connect(&fixture.url()).await else { return false };
    conn.query_opt("select from jobs.finished where id = $1", &[&id.0]).await.is_ok_and(|row| row.is_some())
}

/// Returns how many of the server's processes were killed since its log had this length.
fn killed(fixture: &Fixture<'_>, log: u64) -> Result<usize> {
    Ok(fixture.cluster.log_since(log)?.matches("was terminated by signal 9").count())
}
