//! Batches: jobs run together in one transaction. Meanwhile workers are killed at any moment, and one is suspended
//! until its jobs run elsewhere. Commits and replies to commits are lost, and an operator cancels jobs that run.
//!
//! The effect of each job is there once, if and only if the job has completed, whatever happens to the others of its
//! batch. A job that fails, is cancelled or loses its lease leaves no effect.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use diesel_jobs::operator::Operated;
use diesel_jobs::{Database, JobId};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_util::sync::CancellationToken;
use torture::checker::Promise;
use torture::cluster::connect;
use torture::history::{Ending, Enqueued};
use torture::proxy::Proxy;
use torture::workload::{Application, EnqueueCall, Shape, Work, disturb};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::statements::COMMIT;
use super::suspended::{HEIR_MILLIS, Suspended};

const SHORT: Size = Size { jobs: 1_500, faults: 12 };
const LONG: Size = Size { jobs: 30_000, faults: 200 };
const WORKERS: usize = 3;
const DRAINED: Duration = Duration::from_secs(60);
const CALM_MILLIS: std::ops::Range<u64> = 150..550;
/// One commit in this many is executed, and its reply is lost. One in this many is lost itself.
const REPLIES: usize = 7;
const REQUESTS: usize = 11;
/// The jobs of the worker that is suspended.
const ZOMBIES_JOBS: i64 = 32;
const SHAPES: [Shape; 2] = [Shape::Transactional, Shape::TransactionalBlocking];
/// The largest bulk, the pause between two of them, and the longest attempt.
const BULK: usize = 20;
const PAUSE_MILLIS: std::ops::Range<u64> = 0..60;
const MILLIS: u64 = 25;
/// The pause between two jobs that the operator cancels.
const CALLED_OFF_EACH: Duration = Duration::from_millis(40);

/// The most effects that one transaction has written.
const LARGEST: &str =
    "select coalesce(max(effects), 0) from (select count(*) as effects from torture.effect group by xmin::text) batch";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    let first = |number: i64| Work::new(number, shape(number)).in_batch().and_later(HEIR_MILLIS);
    let mut zombie = Suspended::with(fixture, &conn, (1..=ZOMBIES_JOBS).map(first).collect()).await?;
    let line = Proxy::start(fixture.upstream()).await?;
    let lost = [line.lose_replies(COMMIT, REPLIES, size.faults), line.lose_requests(COMMIT, REQUESTS, size.faults)];
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "4", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.url_through(line.port()), History::Quick, &args, WORKERS).await?;
    let stop = CancellationToken::new();
    let load = tokio::spawn(enqueue(fixture.url(), fixture.seed, size.jobs));
    let operator = tokio::spawn(call_off(fixture.url(), stop.clone()));
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    for kill in 1..=size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &conn).await?;
        zombie.wake_when_due()?;
        if kill == size.faults {
            zombie.wake().await?;
        }
    }
    let mut ledger = load.await??;
    ledger.extend(zombie.ledger());
    stop.cancel();
    let called_off = operator.await??;
    for row in ledger.iter_mut().filter(|row| row.job.is_some_and(|id| called_off.contains(&id))) {
        row.ends = Ending::CalledOff;
    }
    let drained = fixture.at_rest_or_stuck(DRAINED).await?;
    let largest = number(&conn, LARGEST).await?;
    let dead = fleet.dead()?;
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    let lost = lost.map(|losses| losses.count());
    run.load = format!(
        "{}, {WORKERS} workers x 4 slots, up to {largest} in a batch, {} commits lost, {} called off",
        run.load,
        lost[0] + lost[1],
        called_off.len()
    );
    run.faults = size.faults + 1 + lost[0] + lost[1];
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(largest > 2, || format!("no batch wrote more than {largest} effects: nothing was tested"));
    run.expect(!called_off.is_empty(), || "no job was called off: nothing was tested".to_owned());
    run.expect(lost.iter().all(|lost| *lost > 0), || format!("{lost:?} commits were lost: too little was tested"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

fn shape(number: i64) -> Shape {
    SHAPES[usize::from(number % 2 == 0)]
}

/// Enqueues this many jobs of both sorts.
async fn enqueue(url: String, seed: u64, jobs: usize) -> Result<Vec<Enqueued>> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1));
    let mut application = Application::new(url);
    let (mut next, mut enqueued) = (ZOMBIES_JOBS, 0);
    while enqueued < jobs {
        let works: Vec<Work> = (0..rng.random_range(1..=BULK))
            .map(|_| {
                next += 1;
                work(&mut rng, next)
            })
            .collect();
        let call = if rng.random_bool(0.9) {
            enqueued += works.len();
            EnqueueCall::Bulk(works)
        } else {
            EnqueueCall::Transaction { works, commit: false, late: Duration::ZERO }
        };
        application.perform(&call).await?;
        tokio::time::sleep(Duration::from_millis(rng.random_range(PAUSE_MILLIS))).await;
    }
    Ok(application.ledger())
}

fn work(rng: &mut StdRng, number: i64) -> Work {
    let mut work = Work::new(number, shape(number)).in_batch().lasting(rng.random_range(0..=MILLIS));
    if rng.random_bool(0.2) {
        disturb(rng, &mut work);
        // A panic is one of the whole batch.
        work.panics = false;
    }
    work
}

/// An operator, who cancels a job that runs now and then. Returns the ids of the cancelled jobs.
async fn call_off(url: String, stop: CancellationToken) -> Result<HashSet<i64>> {
    let operator = Database::open(&url, 1).await?.operator;
    let conn = connect(&url).await?;
    let mut cancelled = HashSet::new();
    while !stop.is_cancelled() {
        for row in conn.query("select id from jobs.running order by random() limit 1", &[]).await? {
            let id: i64 = row.get(0);
            if operator.cancel(JobId(id)).await? == Operated::Done {
                cancelled.insert(id);
            }
        }
        tokio::time::sleep(CALLED_OFF_EACH).await;
    }
    Ok(cancelled)
}
