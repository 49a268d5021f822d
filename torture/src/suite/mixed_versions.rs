//! Mixed versions: in the middle of a deployment, workers of the older version meet kinds that they do not have, in front of
//! those that they do, and arguments that they do not understand; one of the newer version is killed, and only older ones
//! are there to rescue its jobs.
//!
//! The older ones touch nothing that they do not know and are not held up by it; what they cannot read fails its attempt, is
//! written down, and is done by the newer ones.

use std::time::Duration;

use anyhow::{Result, bail};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{IntoNewJob as _, Job as _, enqueue_all};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued, Record, fault};
use torture::process::{Process, Signal};
use torture::workload::versions::{Amount, Billed, Novel};
use torture::workload::{Mix, Shape, Work, Workload};

use super::arena::{Arena, History, PATIENCE, START, Size, number, slack};
use super::fleet::Fleet;
use super::load::Load;
use super::run::{Run, quantile};
use crate::role::BEHIND;

/// Jobs that both know; a third as many of the new kind, and of the one whose arguments have changed.
const SHORT: Size = Size { jobs: 300, faults: 1 };
const LONG: Size = Size { jobs: 6_000, faults: 1 };
const OLDER: usize = 2;
const ARGS: [&str; 4] = ["--concurrency", "8", "--poll", "200ms"];
/// Numbers of the new kind, and of the changed one.
const NOVEL: i64 = 1_000_000;
const BILLED: i64 = 2_000_000;
/// A known job waits so long behind unknown ones, at most: it is there before it is due.
const HELD_UP: Duration = Duration::from_millis(500);
const TOUCHED: &str =
    "select count(*) from jobs.job where kind = 'novel' and (state, attempt, lease) <> ('available', 0, 0)";
/// How long both versions meet arguments in the new form.
const TOGETHER: Duration = Duration::from_secs(3);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(arena: &Arena<'_>) -> Result<Run> {
    let size = arena.size(SHORT, LONG);
    let older = (0..OLDER).map(|_| behind(arena)).collect::<Result<Vec<_>>>()?;
    let older = started(older).await?;
    let pids: Vec<i32> = older.iter().map(|worker| worker.id().cast_signed()).collect();
    let conn = arena.connect().await?;
    let mut application = AsyncPgConnection::establish(&arena.url()).await?;
    let third = i64::try_from(size.jobs / 3)?;

    // Those that nobody knows come first.
    let novel = (NOVEL..NOVEL + third).map(|number| Work::new(number, Shape::Async).lasting(30)).collect::<Vec<_>>();
    let jobs = novel.iter().map(|work| Novel { work: work.clone() }.priority(0).into_new_job());
    let ids = enqueue_all(&mut application, jobs.collect::<Result<Vec<_>, _>>()?).await?;
    let mut ledger = noted(&novel, ids);
    let mix = Mix { long: 0, bulk: 20, ..Mix::default() };
    let load = Load::start(arena.url(), Workload::new(arena.seed, mix, size.jobs), Duration::from_millis(3));
    ledger.extend(load.ended().await?.ledger());
    let alone = rest_but(&conn, "kind = 'novel'", arena.mutant().map_or(REST, |_| PATIENCE)).await?;
    let touched = number(&conn, TOUCHED).await?;

    // Were they touched, the newer version may find none of them.
    if touched == 0 {
        kill_with_some(arena, &conn).await?;
    }
    let fleet = Fleet::start(arena, arena.worker_url(), History::Quick, &ARGS, 1).await?;

    let billed: Vec<Work> = (BILLED..BILLED + third).map(|number| Work::new(number, Shape::Async)).collect();
    let amount = |number| match number % 3 {
        0 => Amount::Cents(number),
        _ => Amount::Of { cents: number, currency: "EUR".to_owned() },
    };
    let jobs = billed.iter().map(|work| Billed { work: work.clone(), amount: amount(work.number) }.into_new_job());
    let ids = enqueue_all(&mut application, jobs.collect::<Result<Vec<_>, _>>()?).await?;
    ledger.extend(noted(&billed, ids));
    tokio::time::sleep(TOGETHER).await;
    // The deployment comes to its end.
    for mut worker in older {
        worker.signal(Signal::TERM)?;
        worker.ended(START).await?;
    }
    let drained = arena.at_rest(REST).await?;

    let mut run = Run::judge(arena, &ledger, Promise::default()).await?;
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
    let bar = (HELD_UP + slack()).as_secs_f64();
    run.expect(waited <= bar, || format!("p99 of the known jobs waited {waited:.2} s, and should {bar:.2} s"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// The first of the newer version is killed with some of what only it knows.
async fn kill_with_some(arena: &Arena<'_>, conn: &Client) -> Result<()> {
    let mut first = arena.worker(&arena.worker_url(), History::Quick, &ARGS)?;
    wait_for(conn, "select count(*) from jobs.running where kind = 'novel'", START).await?;
    fault(conn, "kill", Some(first.id())).await?;
    first.kill()?;
    wait_for(conn, "select count(*) from jobs.job_error where kind = 'crash'", START).await
}

/// A worker of the older version.
fn behind(arena: &Arena<'_>) -> Result<Process> {
    arena.worker_with(&arena.worker_url(), History::Quick, &ARGS, &[(BEHIND, "1")])
}

async fn started(mut workers: Vec<Process>) -> Result<Vec<Process>> {
    for worker in &mut workers {
        worker.said("worker started", START).await?;
    }
    Ok(workers)
}

fn noted(works: &[Work], ids: Vec<diesel_jobs::JobId>) -> Vec<Enqueued> {
    works.iter().zip(ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)).collect()
}

/// Waits until nothing waits or runs but this. `false` if that takes too long.
async fn rest_but(conn: &Client, these: &str, limit: Duration) -> Result<bool> {
    let open = format!("select (count(*) = 0)::int::bigint from jobs.job where finished_at is null and not {these}");
    Ok(wait_for(conn, &open, limit).await.is_ok())
}

/// Waits until this number is not 0.
async fn wait_for(conn: &Client, sql: &str, limit: Duration) -> Result<()> {
    let seen = async {
        while number(conn, sql).await? == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    match tokio::time::timeout(limit, seen).await {
        Ok(seen) => seen,
        Err(_) => bail!("waited {limit:?} in vain for: {sql}"),
    }
}

/// From the enqueue of each job that both versions know to its start.
fn waits(record: &Record) -> Vec<f64> {
    let first = |number| record.events.iter().find(|event| event.number == number);
    let known = record.jobs.iter().filter(|job| job.number < NOVEL);
    known.filter_map(|job| Some((first(job.number)?.at - job.enqueued_at).as_seconds_f64())).collect()
}
