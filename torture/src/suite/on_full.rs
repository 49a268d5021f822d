//! Jobs that do not wait: a job that finds its limit full is discarded, or cancels the oldest job of its key. Workers
//! are killed, one is suspended until its jobs run elsewhere, and the server crashes.
//!
//! Each job ends once: as its handler says, or by its own rule. A job that has started is not discarded because its
//! limit is full, and the newest job of a key is not cancelled. Jobs that never find their limit full, and jobs without
//! such a rule, end as their handlers say. No job waits before its first attempt beside a full limit, if it must be
//! discarded. What holds for limits holds here, too: see `limits`.

mod ends;
mod with_room;

use std::time::Duration;

use anyhow::Result;
use diesel_jobs::rules::OnFull;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use torture::checker::Promise;
use torture::history::{CRASH, Enqueued, fault};
use torture::workload::{Application, EnqueueCall, Shape, Work, disturb};

use super::bodies::overlapping;
use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::limits::{LEFT, LOOK, NO_SWEEP, switch_sweep_off};
use super::run::Run;
use super::suspended::{HEIR_MILLIS, Suspended};
use super::watch::Watch;
use ends::Ends;
use with_room::with_room;

/// The number of jobs is what is enqueued until the last fault.
const SHORT: Size = Size { jobs: 0, faults: 14 };
const LONG: Size = Size { jobs: 0, faults: 200 };
const WORKERS: usize = 4;
const DRAINED: Duration = Duration::from_secs(60);
const CALM_MILLIS: std::ops::Range<u64> = 150..450;
/// After this many kills the server crashes.
const KILLS_PER_CRASH: usize = 7;
/// The connections that enqueue more jobs than the limits allow, and those that enqueue as many as they allow.
const PRODUCERS: i64 = 3;
const WITH_ROOM: i64 = 4;
/// The range of job numbers of one of them.
const EACH: i64 = 1_000_000;
const PAUSE_MILLIS: std::ops::Range<u64> = 5..50;
/// How long an attempt takes.
const MILLIS: std::ops::Range<u64> = 0..60;

/// The names of the limits: of jobs that are discarded, and of jobs that cancel others.
const DISCARDS: &str = "discards";
const CANCELS: &str = "cancels";
/// The keys of each.
const KEYS: i64 = 6;
const MOST: u32 = 2;
/// The jobs of the worker that is suspended. They take permits of the first keys.
const ZOMBIES_JOBS: i64 = 12;

/// How long a permit may be free beside a job that waits for it, and how long a job may wait that must not wait.
const FREE: Duration = Duration::from_millis(1_500);
/// What the [`Watch`] looks for besides what it looks for in the test of limits.
const WAITS: &str = "union all
select 'waits', h.limit_name || h.limit_key || h.id, '' from jobs.held h join permit s on s.name = h.limit_name and s.key = h.limit_key
where h.flags & 64 <> 0 and h.lease = 0 and not h.later and not h.paused and h.rules #>> '{0,rule,concurrency,on_full}' = 'discard' and s.permits >= h.most";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    switch_sweep_off(&conn, NO_SWEEP).await?;
    let mut zombie = Suspended::with(fixture, &conn, (1..=ZOMBIES_JOBS).map(first).collect()).await?;
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture, format!("{LOOK}\n{WAITS}"), FREE);
    let (mut load, stop) = (JoinSet::new(), CancellationToken::new());
    for place in 1..=PRODUCERS {
        load.spawn(produce(fixture.url(), fixture.seed, place, stop.clone()));
    }
    for place in PRODUCERS + 1..=PRODUCERS + WITH_ROOM {
        let rule = if place % 2 == 0 { OnFull::Discard } else { OnFull::CancelOldest };
        load.spawn(with_room(fixture.url(), place * EACH, MOST, rule, stop.clone()));
    }
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut crashes = 0;
    for kill in 1..=size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &fixture.connect().await?).await?;
        zombie.wake_when_due()?;
        if kill == size.faults / 2 {
            zombie.wake().await?;
        }
        if kill % KILLS_PER_CRASH == 0 && zombie.is_awake() {
            // A worker that starts without a server ends with an error.
            fleet.at_work().await?;
            fault(&fixture.connect().await?, CRASH, None).await?;
            fixture.cluster.crash()?;
            fixture.cluster.restart()?;
            crashes += 1;
        }
    }
    stop.cancel();
    let mut ledger = zombie.ledger();
    while let Some(enqueued) = load.join_next().await {
        ledger.extend(enqueued??);
    }
    let drained = fixture.at_rest_or_stuck(DRAINED).await?;
    let found = watch.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, LEFT).await?;
    let (at_once, beyond) = overlapping(&conn).await?;
    let ends = Ends::load(&conn).await?;
    ends.put_into(&mut ledger);
    let dead = fleet.dead()?;
    let promise = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, {ends}, {WORKERS} workers x 16 slots, {} looks", run.load, found.looks);
    run.faults = size.faults + crashes + 1;
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the permits: nothing was tested", found.looks));
    run.expect(left == 0, || format!("{left} held jobs, permits or nudges are left"));
    run.expect(at_once > 0, || "no two handlers of a key ran at once: nothing was tested".to_owned());
    run.expect(beyond == 0, || format!("the handlers of {beyond} keys overlapped beyond the limit"));
    run.complaints.extend(found.complaints);
    run.complaints.extend(ends.complaints(with_room::NAME));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// A job of the worker that is suspended. Newer jobs cancel some of them meanwhile.
fn first(number: i64) -> Work {
    let work = Work::new(number, Shape::Async).and_later(HEIR_MILLIS);
    match number % 3 {
        0 => work.limited(DISCARDS, number / 6, MOST).on_full(OnFull::Discard),
        _ => work.limited(CANCELS, number % 4, MOST).on_full(OnFull::CancelOldest),
    }
}

/// Enqueues more jobs than the limits allow.
async fn produce(url: String, seed: u64, place: i64, stop: CancellationToken) -> Result<Vec<Enqueued>> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(place.unsigned_abs()));
    let mut application = Application::new(url);
    let mut next = place * EACH;
    while !stop.is_cancelled() {
        let works: Vec<Work> = (0..rng.random_range(1..=6))
            .map(|_| {
                next += 1;
                work(&mut rng, next)
            })
            .collect();
        // Some transactions commit late, and some not at all.
        let late = Duration::from_millis(if rng.random_bool(0.3) { rng.random_range(0..100) } else { 0 });
        let call = match rng.random_range(0..10) {
            0..4 => EnqueueCall::Bulk(works),
            4..9 => EnqueueCall::Transaction { works, commit: true, late },
            _ => EnqueueCall::Transaction { works, commit: false, late },
        };
        application.perform(&call).await?;
        tokio::time::sleep(Duration::from_millis(rng.random_range(PAUSE_MILLIS))).await;
    }
    Ok(application.ledger())
}

/// One job. One in five has no rule, and waits.
fn work(rng: &mut StdRng, number: i64) -> Work {
    let shape = Shape::ALL[rng.random_range(0..Shape::ALL.len())];
    let mut work = Work::new(number, shape).lasting(rng.random_range(MILLIS));
    work.polite = rng.random_bool(0.5);
    if rng.random_bool(0.2) {
        disturb(rng, &mut work);
    }
    let key = rng.random_range(0..KEYS);
    let (name, rule) = if rng.random_bool(0.5) { (DISCARDS, OnFull::Discard) } else { (CANCELS, OnFull::CancelOldest) };
    work.limited(name, key, MOST).on_full(if rng.random_bool(0.2) { OnFull::Wait } else { rule })
}
