//! Crash points: each step of a job and its worker is a point. One worker for each point dies there, while all others
//! work. The surviving workers run the jobs that the dead ones held.

use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use torture::checker::Promise;
use torture::history::fault;
use torture::process::{Process, Signal};
use torture::proxy::Proxy;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, LEASE, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::recovery;
use super::run::Run;
use super::statements::{CLAIM, COMMIT};

/// The number of rounds. In each, a worker dies at another passage of its point.
const SHORT: Size = Size { jobs: 0, faults: 1 };
const LONG: Size = Size { jobs: 0, faults: 20 };
/// The points that some worker reaches without outside help.
const POINTS: [&str; 19] = [
    "registered",
    "claim",
    "claimed",
    "prefetched",
    "start",
    "ended",
    "finish-one",
    "finish-batch",
    "finished",
    "transaction-finish",
    "transaction-commit",
    "transaction-ended",
    "blocking-transaction-finish",
    "blocking-transaction-commit",
    "admit",
    "admitted",
    "rescue",
    "prune",
    "pruned",
];
/// The points that a worker reaches when replies to its commits or to its claims are lost.
const AFTER_LOST_REPLIES: [(&str, &str); 2] = [("unknown", COMMIT), ("unknown-leases", CLAIM)];
/// The points that a worker reaches when it is asked to stop. And the point of a worker that rescues the jobs of those
/// that died there.
const AT_THE_END: [&str; 3] = ["drain", "grace-over", "deregister"];
const AFTER_THEM: &str = "rescued";
/// The pause between two actions of the application. Workers that soon die complete few jobs.
const CALM: Duration = Duration::from_millis(40);
/// The limits for the time until all workers have died at their points, and until the surviving worker has run the
/// remaining jobs.
const REACHED: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_secs(60);

/// A worker and the point at which it dies.
struct Doomed {
    point: &'static str,
    process: Process,
    /// The proxy between it and the server, for as long as it lives.
    _line: Option<Proxy>,
}

/// Inserts expired jobs, each with a failure and with large arguments. They are more than the workers prune before they
/// die. `IN_PART` counts the jobs of which only a part was pruned; there must be none.
const TO_PRUNE: &str = "
    with pruned as (
        insert into jobs.finished (id, run_at, enqueued_at, expires_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue)
        select nextval('jobs.job_id'), now(), now(), now() - interval '1 day', 1, 3, 0, 1, 1, 0, 'pruned', 'default' from generate_series(1, 5000)
        returning id
    ), failed as (
        insert into jobs.job_error (job_id, attempt, kind, message) select id, 1, 'error', 'to be pruned' from pruned
    )
    insert into jobs.payload (job_id, args) select id, '{}' from pruned";
const IN_PART: &str = "select count(*) from (select id from jobs.finished where kind = 'pruned') finished
    full join (select job_id from jobs.job_error where message = 'to be pruned') failed on failed.job_id = id
    full join (select job_id from jobs.payload where args::text = '{}') payload on payload.job_id = id
    where id is null or failed.job_id is null or payload.job_id is null";
const LEFT: &str = "select count(*) from jobs.finished where kind = 'pruned'";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    conn.batch_execute(TO_PRUNE).await?;
    // A worker that is asked to stop must hold a job that takes longer than the grace period.
    let mix = Mix { bulk: 20, long: 15, long_millis: 1_000, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, usize::MAX), CALM);
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let (mut died, mut alive) = (0, Vec::new());
    for _ in 0..size.faults {
        let mut doomed = Vec::new();
        for point in POINTS {
            doomed.push(doom(fixture, point, None, rng.random_range(1..=3))?);
        }
        for (point, sql) in AFTER_LOST_REPLIES {
            let proxy = Proxy::start(fixture.upstream()).await?;
            proxy.lose_replies(sql, 2, usize::MAX);
            doomed.push(doom(fixture, point, Some(proxy), 1)?);
        }
        died += await_all(fixture, &mut doomed, &mut alive).await?;

        let mut rescuer = vec![doom(fixture, AFTER_THEM, None, 1)?];
        for point in AT_THE_END {
            died += stop_until_dead(fixture, point, &mut alive).await?;
        }
        died += await_all(fixture, &mut rescuer, &mut alive).await?;
    }
    let fleet =
        Fleet::start(fixture, fixture.worker_url(), History::Quick, &["--slots", "16", "--max-crashes", "1000"], 1)
            .await?;
    let ledger = load.stop().await?.ledger();
    let drained = fixture.at_rest(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, a worker for each point", run.load);
    run.faults = died;
    run.recovery = recovery::of_crashes(&run.record);
    run.expect(drained, || format!("not drained {REST:?} after the last crash"));
    let (in_part, left) = (number(&conn, IN_PART).await?, number(&conn, LEFT).await?);
    run.expect(in_part == 0, || format!("{in_part} jobs were pruned in part"));
    run.expect(left < 5_000, || "nobody has pruned anything".to_owned());
    run.expect(alive.is_empty(), || format!("within {REACHED:?} no worker came to {}", alive.join(", ")));
    run.expect_within(0.99, LEASE + Duration::from_secs(2));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Starts a worker that dies when it reaches this point for the `time`th time.
fn doom(fixture: &Fixture<'_>, point: &'static str, line: Option<Proxy>, time: usize) -> Result<Doomed> {
    let url = line.as_ref().map_or_else(|| fixture.worker_url(), |proxy| fixture.url_through(proxy.port()));
    // A process reaches these points only once, or has time for no more.
    let time = if matches!(point, "registered" | "admit" | "admitted" | "prune" | "pruned") { 1 } else { time };
    // A job may be in any number of crashes, so the limit is high. The grace period is shorter than a long job, for the
    // point `grace-over`.
    let args = ["--slots", "4", "--poll-interval", "100ms", "--grace-period", "100ms", "--max-crashes", "1000"];
    let plan = format!("{point}:{time}");
    let process = fixture.worker_with(&url, History::Quick, &args, &[("JOBS_CRASH_AT", &plan)])?;
    Ok(Doomed { point, process, _line: line })
}

/// Asks workers to stop, one after the other, until one dies at the point. A worker that holds no long job at that
/// moment stops before the end of its grace period.
async fn stop_until_dead(fixture: &Fixture<'_>, point: &'static str, alive: &mut Vec<&'static str>) -> Result<usize> {
    let conn = fixture.connect().await?;
    let deadline = Instant::now() + REACHED;
    while Instant::now() < deadline {
        let mut worker = doom(fixture, point, None, 1)?;
        tokio::time::sleep(Duration::from_millis(700)).await;
        worker.process.signal(Signal::TERM)?;
        if worker.process.ended(REACHED).await? != 0 {
            fault(&conn, point, Some(worker.process.id())).await?;
            return Ok(1);
        }
    }
    alive.push(point);
    Ok(0)
}

/// Waits until all have died, at most `REACHED`, and records each death. Adds the points of the others to `alive`.
/// Returns how many died.
async fn await_all(fixture: &Fixture<'_>, doomed: &mut Vec<Doomed>, alive: &mut Vec<&'static str>) -> Result<usize> {
    let conn = fixture.connect().await?;
    let deadline = Instant::now() + REACHED;
    let mut died = 0;
    while !doomed.is_empty() && Instant::now() < deadline {
        let mut left = Vec::new();
        for mut worker in doomed.drain(..) {
            if worker.process.is_alive()? {
                left.push(worker);
                continue;
            }
            fault(&conn, worker.point, Some(worker.process.id())).await?;
            died += 1;
        }
        *doomed = left;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    alive.extend(doomed.iter().map(|worker| worker.point));
    doomed.clear();
    Ok(died)
}
