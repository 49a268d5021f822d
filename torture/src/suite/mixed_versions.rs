//! Mixed versions, as during a deployment. Jobs of kinds that the older workers do not know come before jobs of kinds
//! that they know. Other jobs have arguments that they cannot decode. A worker of the newer version is killed while
//! only older workers can rescue its jobs.
//!
//! The older workers do not touch jobs of unknown kinds, and are not delayed by them. An attempt with arguments that
//! they cannot decode fails and is recorded. The newer workers run such jobs.

use std::time::Duration;

use anyhow::{Result, bail};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::{Job as _, enqueue_all};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued, Record, fault};
use torture::process::{Process, Signal};
use torture::workload::versions::{Amount, Billed, Novel};
use torture::workload::{Mix, Shape, Work, Workload};

use super::at_rest::PATIENCE;
use super::fixture::{Fixture, History, START, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::{Run, quantile};
use crate::role::BEHIND;

/// The number of jobs that both versions know. A third as many are of the new kind, and a third as many of the kind
/// whose arguments have changed.
const SHORT: Size = Size { jobs: 300, faults: 1 };
const LONG: Size = Size { jobs: 6_000, faults: 1 };
const OLDER: usize = 2;
const ARGS: [&str; 4] = ["--slots", "8", "--poll-interval", "200ms"];
/// The numbers of jobs of the new kind begin at the first, those of the changed kind at the second.
const NOVEL: i64 = 1_000_000;
const BILLED: i64 = 2_000_000;
/// The limit for the time that known jobs wait behind unknown ones. It counts from the enqueue, which is before the job
/// is due.
const HELD_UP: Duration = Duration::from_millis(500);
const TOUCHED: &str =
    "select count(*) from jobs.job where kind = 'novel' and (state, attempt, lease) <> ('available', 0, 0)";
/// How long both versions run while arguments in the new form are there.
const TOGETHER: Duration = Duration::from_secs(3);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let older = (0..OLDER).map(|_| behind(fixture)).collect::<Result<Vec<_>>>()?;
    let older = started(older).await?;
    let pids: Vec<i32> = older.iter().map(|worker| worker.id().cast_signed()).collect();
    let conn = fixture.connect().await?;
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let third = i64::try_from(size.jobs / 3)?;

    // The jobs of the unknown kind are enqueued first.
    let novel = (NOVEL..NOVEL + third).map(|number| Work::new(number, Shape::Async).lasting(30)).collect::<Vec<_>>();
    let jobs = novel.iter().map(|work| Novel { work: work.clone() }.priority(0).into_new_job());
    let ids = enqueue_all(&mut application, jobs.collect::<Result<Vec<_>, _>>()?).await?;
    let mut ledger = noted(&novel, ids);
    let mix = Mix { long: 0, bulk: 20, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::from_millis(3));
    ledger.extend(load.ended().await?.ledger());
    let alone = rest_but(&conn, "kind = 'novel'", fixture.mutant().map_or(REST, |_| PATIENCE)).await?;
    let touched = number(&conn, TOUCHED).await?;

    // If older workers touched these jobs, the newer version may find none of them.
    if touched == 0 {
        kill_with_some(fixture, &conn).await?;
    }
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &ARGS, 1).await?;

    let billed: Vec<Work> = (BILLED..BILLED + third).map(|number| Work::new(number, Shape::Async)).collect();
    let amount = |number| match number % 3 {
        0 => Amount::Cents(number),
        _ => Amount::Of { cents: number, currency: "EUR".to_owned() },
    };
    let jobs = billed.iter().map(|work| Billed { work: work.clone(), amount: amount(work.number) }.into_new_job());
    let ids = enqueue_all(&mut application, jobs.collect::<Result<Vec<_>, _>>()?).await?;
    ledger.extend(noted(&billed, ids));
    tokio::time::sleep(TOGETHER).await;
    // The end of the deployment: the older workers stop.
    for mut worker in older {
        worker.signal(Signal::TERM)?;
        worker.ended(START).await?;
    }
    let drained = fixture.at_rest(REST).await?;

    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, {OLDER} older workers and a newer one", run.load);
    let unread = run.record.failures.iter().filter(|failure| failure.kind == "undecodable").count();
    run.faults = unread + 1;
    run.recovery = super::recovery::of_crashes(&run.record);
    run.expect(alone, || "the older workers did not come to an end with what they know".to_owned());
    run.expect(touched == 0, || format!("{touched} jobs of an unknown kind were touched"));
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(unread > 0, || "no older worker met new arguments: nothing was tested".to_owned());
    let ran =
        |pid: &i32, number: i64| run.record.events.iter().any(|event| event.pid == *pid && event.number == number);
    let strange = novel.iter().filter(|work| pids.iter().any(|pid| ran(pid, work.number))).count();
    run.expect(strange == 0, || format!("older workers ran {strange} jobs of a kind that they do not have"));
    let waited = quantile(&waits(&run.record), 0.99).unwrap_or_default();
    let bar = HELD_UP.as_secs_f64();
    run.expect_in_time(waited <= bar, || format!("p99 of the known jobs waited {waited:.2} s, and should {bar:.2} s"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Kills the first worker of the newer version while it holds jobs of the new kind. Returns when they were rescued.
async fn kill_with_some(fixture: &Fixture<'_>, conn: &Client) -> Result<()> {
    let mut first = fixture.worker(&fixture.worker_url(), History::Quick, &ARGS)?;
    wait_for(conn, "select count(*) from jobs.running where kind = 'novel'", START).await?;
    fault(conn, "kill", Some(first.id())).await?;
    first.kill()?;
    wait_for(conn, "select count(*) from jobs.job_error where kind = 'crash'", START).await
}

/// Starts a worker of the older version.
fn behind(fixture: &Fixture<'_>) -> Result<Process> {
    fixture.worker_with(&fixture.worker_url(), History::Quick, &ARGS, &[(BEHIND, "1")])
}

async fn started(mut workers: Vec<Process>) -> Result<Vec<Process>> {
    for worker in &mut workers {
        worker.said("worker started", START).await?;
    }
    Ok(workers)
}

fn noted(works: &[Work], ids: Vec<diesel_jobs::Enqueued>) -> Vec<Enqueued> {
    works.iter().zip(ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)).collect()
}

/// Waits until no job except these waits or runs. Returns `false` if that takes longer than `limit`.
async fn rest_but(conn: &Client, these: &str, limit: Duration) -> Result<bool> {
    let open = format!("select (count(*) = 0)::int::bigint from jobs.job where finished_at is null and not {these}");
    Ok(wait_for(conn, &open, limit).await.is_ok())
}

/// Waits until the query returns another number than 0. It is an error if that takes longer than `limit`.
async fn wait_for(conn: &Client, sql: &str, limit: Duration) -> Result<()> {
    let seen = async {
        while number(conn, sql).await? == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    match tokio::time::timeout(limit, seen).await {
        Ok(seen) => seen,
        Err(_) => bail!("waited {limit:?}, and this query returned 0: {sql}"),
    }
}

/// Returns the times from enqueue to start, in seconds, of the jobs that both versions know.
fn waits(record: &Record) -> Vec<f64> {
    let first = |number| record.events.iter().find(|event| event.number == number);
    let known = record.jobs.iter().filter(|job| job.number < NOVEL);
    known.filter_map(|job| Some((first(job.number)?.at - job.enqueued_at).as_seconds_f64())).collect()
}
