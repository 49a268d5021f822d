//! Cancelled futures: handlers are dropped at each of their polls. There are three causes: the time limit, the stop of
//! the worker, and an operator who cancels the job. That happens during statements, savepoints and commits, with few
//! connections for all handlers.
//!
//! No connection returns to its pool inside a transaction. So what later jobs write on it is kept, and what dropped
//! handlers wrote is not. No slot is lost, and each attempt counts once.

use std::time::Duration;

use anyhow::{Result, bail};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::operator::{Operated, Operator};
use diesel_jobs::{Database, Job as _, JobId, NewJob, enqueue_all};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Ending, Enqueued, fault};
use torture::process::Signal;
use torture::workload::stalling::{
    Endless, EndlessTransactional, Stalling, StallingBlocking, StallingTransactional, StallingTransactionalBlocking,
};
use torture::workload::{Application, Mix, Shape, Work, Workload};

use super::fixture::{Fixture, History, START, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use super::slots;

/// The number of stalling jobs, and of other jobs. The number of jobs that an operator cancels; half as many workers
/// are replaced.
const SHORT: Size = Size { jobs: 120, faults: 4 };
const LONG: Size = Size { jobs: 6_000, faults: 100 };
const WORKERS: usize = 2;
const SLOTS: i64 = 8;
const CONNECTIONS: &str = "3";
/// The numbers of jobs that stall begin at the first, those of jobs that never end at the second.
const STALLING: i64 = 1_000_000;
const ENDLESS: i64 = 2_000_000;
/// More than the planned failures: an attempt that gets no connection in time fails, too. No more than 50 failures of a
/// job are stored.
const ATTEMPTS: u16 = 50;
/// More polls than any of the handlers needs.
const POLLS: u32 = 40;
const REST: Duration = Duration::from_secs(60);
/// The time per stalling job. It stalls one and a half times on average, mostly on one of six connections.
const EACH: Duration = Duration::from_millis(80);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let rest = REST + EACH * u32::try_from(size.jobs)?;
    let args = ["--slots", "8", "--poll-interval", "200ms", "--connections", CONNECTIONS, "--grace-period", "100ms"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let mix = Mix { transactional: 60, blocking: 40, bulk: 20, long: 0, ..Mix::default() };
    let pause = Duration::from_millis(20);
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), pause);
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut ledger = stall(fixture, &mut rng, size.jobs).await?;
    let operator = Database::open(&fixture.url(), 1).await?.operator;
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut stopping = JoinSet::new();
    for (round, number) in (ENDLESS..).take(size.faults).enumerate() {
        let shape = if round % 2 == 0 { Shape::Async } else { Shape::Transactional };
        let work = Work::new(number, shape);
        // A higher priority, so that the job does not wait for those that stall.
        let job = match shape {
            Shape::Async => Endless { work: work.clone() }.priority(1),
            _ => EndlessTransactional { work: work.clone() }.priority(1),
        };
        let id = enqueue_all(&mut application, [job.into_new_job()?]).await?[0];
        ledger.push(Enqueued { ends: Ending::CalledOff, ..work.enqueued(Some(id.0), CommitOutcome::Acknowledged) });
        begun(&conn, number).await?;
        if round % 2 == 1 {
            let mut old = fleet.replace(rng.random_range(0..WORKERS))?;
            fault(&conn, "asked to stop", Some(old.id())).await?;
            old.signal(Signal::TERM)?;
            stopping.spawn(async move { old.ended(START).await });
        }
        fault(&conn, "called off", None).await?;
        call_off(&*operator, *id).await?;
    }
    let mut codes = Vec::new();
    while let Some(code) = stopping.join_next().await {
        codes.push(code??);
    }
    ledger.extend(load.ended().await?.ledger());
    let mut drained = fixture.at_rest(rest).await?;
    let mut last = Application::new(fixture.url());
    let slots = SLOTS * i64::try_from(WORKERS)?;
    drained &= slots::fill(fixture, &mut last, slots, rest).await?;
    ledger.extend(last.ledger());
    let dead = fleet.dead()?;

    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    let timed_out = run.record.failures.iter().filter(|failure| failure.kind == "timeout").count();
    run.load = format!("{}, {WORKERS} workers x {SLOTS} slots with {CONNECTIONS} connections", run.load);
    run.faults = timed_out + size.faults + codes.len();
    run.expect(drained, || format!("not drained after {rest:?}"));
    run.expect(timed_out > size.jobs / 2, || format!("only {timed_out} attempts timed out: little was tested"));
    run.expect(codes.iter().all(|code| *code == 0), || format!("workers that were asked to stop ended with {codes:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    slots::expect_all(&mut run, slots);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues the stalling jobs. Each stalls at another poll.
async fn stall(fixture: &Fixture<'_>, rng: &mut StdRng, jobs: usize) -> Result<Vec<Enqueued>> {
    let shapes = [Shape::Async, Shape::Transactional, Shape::Transactional, Shape::Transactional, Shape::Blocking];
    let shapes = shapes.into_iter().chain([Shape::TransactionalBlocking]).cycle();
    let (mut works, mut new) = (Vec::new(), Vec::<NewJob>::new());
    for (shape, number) in shapes.zip(STALLING..).take(jobs) {
        let work = Work { failures: rng.random_range(1..=2), max_attempts: ATTEMPTS, ..Work::new(number, shape) };
        let polls = rng.random_range(0..POLLS);
        works.push(work.clone());
        let job = match shape {
            Shape::Async => Stalling { work, polls }.max_attempts(ATTEMPTS),
            Shape::Blocking => StallingBlocking { work }.max_attempts(ATTEMPTS),
            Shape::Transactional => StallingTransactional { work, polls }.max_attempts(ATTEMPTS),
            Shape::TransactionalBlocking => StallingTransactionalBlocking { work }.max_attempts(ATTEMPTS),
        };
        new.push(job.into_new_job()?);
    }
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let ids = enqueue_all(&mut conn, new).await?;
    Ok(works.iter().zip(ids).map(|(work, id)| work.enqueued(Some(id.0), CommitOutcome::Acknowledged)).collect())
}

/// Waits until a handler has reported its start.
async fn begun(conn: &Client, number: i64) -> Result<()> {
    let begun = async {
        while conn.query_opt("select from torture.event where number = $1 limit 1", &[&number]).await?.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    match tokio::time::timeout(START, begun).await {
        Ok(begun) => begun,
        Err(_) => bail!("job number {number} did not start within {START:?}"),
    }
}

/// Cancels a job. Repeats this, because a worker that was asked to stop may be giving the job back.
async fn call_off(operator: &dyn Operator, id: JobId) -> Result<()> {
    for _ in 0..50 {
        if operator.cancel(id).await? == Operated::Done {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("job {id} could not be cancelled")
}
