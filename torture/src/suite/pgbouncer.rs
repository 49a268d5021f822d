//! PgBouncer: workers and the application reach the server through PgBouncer in transaction mode. Workers are killed
//! and suspended, replies to commits are dropped, and PgBouncer is killed.
//!
//! As without it, nothing is lost and nothing is done twice. A job starts within the poll interval. No session of the
//! server keeps state of ours, which the next client would find there.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::Promise;
use torture::history::fault;
use torture::pooler::{Pooler, Setup, left_behind};
use torture::process::Signal;
use torture::proxy::Proxy;
use torture::workload::{EnqueueCall, Mix, Shape, Work, Workload};

use super::fixture::{Fixture, History, LEASE, START, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::lost_notifications::waits;
use super::not_run::NotRun;
use super::recovery;
use super::run::Run;
use super::statements::{CLAIM, COMMIT, ENQUEUE, FINISH};

/// The number of jobs, and of kills.
const SHORT: Size = Size { jobs: 1_500, faults: 6 };
const LONG: Size = Size { jobs: 30_000, faults: 60 };
const WORKERS: usize = 4;
/// The number of the server's sessions: fewer than the workers' connections, but enough for all that they run at the
/// same time.
const SESSIONS: usize = 56;
/// The number of dropped replies for each kill, on each path.
const LOST: usize = 2;
const CALM_MILLIS: std::ops::Range<u64> = 50..450;
/// Notifications do not pass PgBouncer, so a job starts within the poll interval.
const POLL: Duration = Duration::from_millis(400);
const SLACK: Duration = Duration::from_millis(100);
/// The numbers of jobs that are enqueued one by one begin here.
const ALONE: i64 = 1_000_000;
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let program = fixture.pgbouncer().map_err(NotRun::because)?;
    let setup =
        Setup { upstream: fixture.upstream(), sessions: SESSIONS, ignores_options: fixture.seed.is_multiple_of(2) };
    let mut pooler = Pooler::start(&program, fixture.logs(), setup).await?;
    let (before_workers, before_application) = (Proxy::start(pooler.port()).await?, Proxy::start(pooler.port()).await?);
    let each = LOST * size.faults;
    let paths = [
        ("enqueue", before_application.lose_replies(ENQUEUE, 3, each)),
        ("enqueue in a transaction", before_application.lose_replies(COMMIT, 2, each)),
        ("claim", before_workers.lose_replies(CLAIM, 3, each)),
        ("finish", before_workers.lose_replies(FINISH, 3, each)),
        ("transactional", before_workers.lose_replies(COMMIT, 3, each)),
    ];
    // The kills are not caused by jobs, and some job may be in three crashes. So the limit is high.
    let args = ["--slots", "8", "--poll-interval", "400ms", "--max-crashes", "1000"];
    let url = fixture.url_through(before_workers.port());
    let mut fleet = Fleet::start(fixture, url.clone(), History::Quick, &args, WORKERS).await?;
    let mut zombie = fixture.worker(&url, History::Quick, &args)?;
    zombie.said("worker started", START).await?;
    let workload = Workload::new(fixture.seed, Mix::default(), size.jobs);
    let load = Load::start(fixture.url_through(before_application.port()), workload, Duration::from_millis(2));
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    tokio::time::sleep(Duration::from_millis(CALM_MILLIS.end)).await;
    fault(&conn, "stop", Some(zombie.id())).await?;
    zombie.signal(Signal::STOP)?;
    for kill in 0..size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &conn).await?;
        if kill == size.faults / 2 {
            // A worker that finds no server at its start ends at once, so that its supervisor notices. So all must have
            // started before.
            fleet.at_work().await?;
            fault(&conn, "the pooler dies", None).await?;
            pooler.restart().await?;
        }
    }
    let mut application = load.ended().await?;
    tokio::time::sleep(2 * LEASE).await;
    zombie.signal(Signal::CONT)?;
    let logged = zombie.said("was declared dead", START).await.is_ok();
    let mut drained = fixture.at_rest(REST).await?;
    for (_, lost) in &paths {
        lost.end();
    }
    for number in (ALONE..).take(5) {
        // Long enough that all workers sleep again.
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        application.perform(&EnqueueCall::Single(Work::new(number, Shape::Async))).await?;
    }
    drained &= fixture.at_rest(REST).await?;
    let dead = fleet.dead()?;
    let left = left_behind(&fixture.url_through(pooler.port()), SESSIONS).await?;
    let mut run = Run::check(fixture, &application.ledger(), Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers x 8 slots and a zombie, {SESSIONS} sessions", run.load);
    run.faults = size.faults + 2 + paths.iter().map(|(_, lost)| lost.count()).sum::<usize>();
    run.recovery = recovery::of_crashes(&run.record);
    run.expect(drained, || format!("not drained {REST:?} after the last kill"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(logged, || "the zombie did not log that it was declared dead".to_owned());
    run.expect(left.is_empty(), || left.join("; "));
    for (path, lost) in &paths {
        run.expect(lost.count() > 0, || format!("{path}: no reply was lost"));
    }
    let wait = waits(&run.record, ALONE).into_iter().fold(0.0, f64::max);
    let bar = (POLL + SLACK).as_secs_f64();
    run.expect_in_time(wait <= bar, || {
        format!("a job of its own waited {wait:.2} s for a poll, and should {bar:.2} s")
    });
    run.expect_within(0.99, LEASE + Duration::from_secs(2));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
