//! Lock strength: applications hold locks of every strength on rows of jobs while workers claim. Also, rows that refer
//! to finished jobs are inserted and not committed.
//!
//! A claim waits for no other session. It passes over locked rows, whatever the strength of the lock, and jobs that are
//! not locked start on time. Locked jobs start soon after the lock is released. (A claim deletes its rows, which even
//! the weakest lock forbids. So a weaker lock of the claim would not help. No foreign key can refer to a waiting job,
//! because `jobs.ready` has no unique key.)

use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::RunAt;
use diesel_jobs::{JobId, NewJob, enqueue_all};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Record, fault};
use torture::workload::{Shape, Work, new_job};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::{Run, quantile};

/// The number of jobs in a round, half of which are locked, and the number of rounds.
const SHORT: Size = Size { jobs: 40, faults: 4 };
const LONG: Size = Size { jobs: 100, faults: 100 };
const WORKERS: usize = 2;
/// The strengths of locks on rows. A foreign key takes the first one.
const LOCKS: [&str; 4] = ["key share", "no key update", "share", "update"];
const FOREIGN_KEY: &str =
    "create table public.invoice (job bigint not null references jobs.finished (id) on delete cascade)";
const INVOICES: &str = "insert into public.invoice select id from jobs.finished order by id desc limit 100";
/// The time from the enqueue to `run_at`, long enough to lock the rows.
const LEAD: Duration = Duration::from_millis(400);
/// How long the rows stay locked after `run_at`.
const HOLD: Duration = Duration::from_millis(1_200);
/// Locks the rows of running jobs for a moment. Their finishes wait so long.
const RUNNING: &str = "begin; select from jobs.running for key share; select pg_sleep(0.2); commit";
/// The limits for the start of jobs that are not locked, after `run_at`, and of locked jobs, after the lock is
/// released.
const ON_TIME: Duration = Duration::from_millis(700);
const LET_GO: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(30);

/// The jobs that were locked, and when their locks were released.
struct Round {
    held: Vec<i64>,
    let_go: DateTime<Utc>,
}

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let holder = fixture.connect().await?;
    holder.batch_execute(FOREIGN_KEY).await?;
    let (other, second) = (fixture.connect().await?, fixture.connect().await?);
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let (mut ledger, mut rounds) = (Vec::new(), Vec::new());
    let mut next = 0;
    for lock in LOCKS.into_iter().cycle().take(size.faults) {
        let works: Vec<Work> =
            (0..size.jobs).zip(next..).map(|(_, number)| Work::new(number, Shape::Async).lasting(100)).collect();
        next += i64::try_from(size.jobs)?;
        let ids = enqueue(&mut application, &works).await?;
        let held = works.iter().step_by(2).map(|work| work.number).collect();
        let to_hold: Vec<i64> = ids.iter().step_by(2).map(|id| id.0).collect();
        ledger.extend(works.iter().zip(&ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)));
        fault(&other, lock, None).await?;
        rounds.push(Round { held, let_go: hold(&holder, &second, &other, lock, &to_hold).await? });
    }
    let drained = fixture.at_rest(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots", run.load);
    run.faults = rounds.iter().map(|round| round.held.len()).sum();
    run.expect(drained, || format!("not drained after {REST:?}"));
    let (late, early) = waits(&mut run, &rounds);
    run.expect(early == 0, || format!("{early} jobs started while somebody held them: they were not held"));
    let (seen, bar) = (quantile(&late, 1.0).unwrap_or_default(), ON_TIME.as_secs_f64());
    run.expect_in_time(seen <= bar, || {
        format!("a job that nobody held started {seen:.2} s late, and should {bar:.2} s")
    });
    run.expect_within(1.0, LET_GO);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues jobs that are due after `LEAD`.
async fn enqueue(conn: &mut AsyncPgConnection, works: &[Work]) -> Result<Vec<JobId>> {
    let jobs = works.iter().map(|work| {
        let mut job: NewJob = new_job(work)?;
        job.run_at = RunAt::After(LEAD);
        Ok(job)
    });
    let enqueued = enqueue_all(conn, jobs.collect::<Result<Vec<_>>>()?).await?;
    Ok(enqueued.into_iter().map(JobId::from).collect())
}

/// Locks these rows before their jobs are due and for a while after, from two sessions if the lock can be shared. Locks
/// rows of running jobs for a moment. Returns the time at which the locks were released.
async fn hold(holder: &Client, second: &Client, other: &Client, lock: &str, ids: &[i64]) -> Result<DateTime<Utc>> {
    for session in [holder, second] {
        session.batch_execute("begin").await?;
    }
    holder.execute(&format!("select from jobs.ready where id = any($1) for {lock}"), &[&ids]).await?;
    if lock != "update" {
        second.execute("select from jobs.ready where id = any($1) for key share", &[&ids]).await?;
    }
    holder.batch_execute(INVOICES).await?;
    tokio::time::sleep(LEAD).await;
    let (running, ()) = tokio::join!(other.batch_execute(RUNNING), tokio::time::sleep(HOLD));
    running?;
    let let_go = holder.query_one("select clock_timestamp()", &[]).await?.get(0);
    for session in [second, holder] {
        session.batch_execute("commit").await?;
    }
    Ok(let_go)
}

/// Returns how late the unlocked jobs started, and how many locked jobs started before their lock was released. Stores
/// how long after the release the locked jobs started.
fn waits(run: &mut Run, rounds: &[Round]) -> (Vec<f64>, usize) {
    let Record { jobs, events, .. } = &run.record;
    let start = |number| events.iter().find(|event| event.number == number && event.what == "start");
    let (mut late, mut after, mut early) = (Vec::new(), Vec::new(), 0);
    for job in jobs {
        let Some(start) = start(job.number) else { continue };
        match rounds.iter().find(|round| round.held.contains(&job.number)) {
            Some(round) if start.at < round.let_go => early += 1,
            Some(round) => after.push((start.at - round.let_go).as_seconds_f64()),
            None => late.push((start.at - job.run_at).as_seconds_f64()),
        }
    }
    run.recovery = after;
    (late, early)
}
