//! Clock steps: under load, the clock of the database's host is repeatedly set an hour ahead and back.
//!
//! No living worker is treated as dead because of that, no attempt is lost, and jobs that are enqueued after a step
//! start soon. A job that waits when the clock is set back starts when the clock reaches its time again, because the
//! database's clock decides.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chrono::Utc;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Enqueue as _;
use torture::checker::Promise;
use torture::cluster::Cluster;
use torture::history::{CommitOutcome, Enqueued, copy, fault};
use torture::workload::{Mix, Shape, Work, Workload, new_job};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::preloaded_clock::Clock;
use super::run::Run;

/// The number of jobs is what is enqueued until the last step. The number of steps is odd: at the end the clock is
/// ahead, so no job waits for an hour. A wrong rescue shows only if it falls between a step and the next heartbeats;
/// that is so for two steps of three.
const SHORT: Size = Size { jobs: 0, faults: 9 };
const LONG: Size = Size { jobs: 0, faults: 41 };
const WORKERS: usize = 2;
const HOUR: i64 = 3_600;
/// The time between two steps: two leases.
const CALM: Duration = Duration::from_secs(6);
/// The duration, in ms, of jobs that are enqueued right after a step. They run beyond the next step.
const LONGER: u64 = 7_000;
const HELD: i64 = 6;
/// The limit for the time from an enqueue right after a step to the start.
const SOON: Duration = Duration::from_secs(3);
const REST: Duration = Duration::from_secs(60);
/// The numbers of jobs that are enqueued right after a step begin here.
const AFTER: i64 = 1_000_000;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let clock = Clock::new()?;
    let environment = clock.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let cluster = Cluster::start_in(&fixture.logs().join("pg"), &super::postgres()?, "", &environment)?;
    let stepped = fixture.on(&cluster).await?;
    let ran = on(fixture, &stepped, &clock).await;
    drop(cluster);
    ran
}

async fn on(fixture: &Fixture<'_>, stepped: &Fixture<'_>, clock: &Clock) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(stepped, stepped.worker_url(), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, ..Mix::default() };
    let load = Load::start(stepped.url(), Workload::new(fixture.seed, mix, usize::MAX), Duration::from_millis(20));
    let (notes, conn) = (fixture.connect().await?, stepped.connect().await?);
    let (mut ledger, mut soon, mut off) = (Vec::new(), Vec::new(), 0);
    for step in 0..size.faults {
        // The load runs with the old time.
        tokio::time::sleep(CALM).await;
        fault(&notes, "the database's clock is set", None).await?;
        off = if step % 2 == 0 { HOUR } else { 0 };
        clock.set(off)?;
        let ahead =
            number(&conn, "select extract(epoch from clock_timestamp())::bigint").await? - Utc::now().timestamp();
        ensure!(
            (ahead - off).abs() < 60,
            "the server's clock should be {off} s ahead, and is {ahead} s: nothing was tested"
        );
        let first = AFTER + i64::try_from(step)? * 100;
        let begun = Instant::now();
        ledger.extend(held(stepped, first).await?);
        let started = format!(
            "select count(distinct number) from torture.event where number between {first} and {first} + {HELD} - 1"
        );
        while number(&notes, &started).await? < HELD && begun.elapsed() < CALM {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        soon.push(begun.elapsed().as_secs_f64());
    }
    tokio::time::sleep(CALM).await;
    ledger.extend(load.stop().await?.ledger());
    let drained = stepped.at_rest(REST).await?;
    let dead = fleet.dead()?;
    // The history was recorded with a correct clock. So the jobs' times are converted to that clock.
    copy(&notes, &conn).await?;
    let ahead = format!("clock_timestamp() - interval '{off} s'");
    for time in ["enqueued_at", "finished_at"] {
        let sql = format!("update jobs.finished set {time} = {time} - interval '{HOUR} s' where {time} > {ahead}");
        conn.batch_execute(&sql).await?;
    }
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(stepped, &ledger, promise).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots", run.load);
    run.faults = size.faults;
    run.recovery = soon;
    let rescued = run.record.failures.iter().filter(|failure| failure.kind == "crash").count();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(rescued == 0, || format!("{rescued} jobs of living workers were rescued"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect_within(1.0, SOON);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues jobs that still run at the next step.
async fn held(fixture: &Fixture<'_>, first: i64) -> Result<Vec<Enqueued>> {
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut ledger = Vec::new();
    for number in first..first + HELD {
        let work = Work::new(number, Shape::Async).lasting(LONGER);
        let id = new_job(&work)?.enqueue(&mut conn).await?;
        ledger.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
    }
    Ok(ledger)
}
