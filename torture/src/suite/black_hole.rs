//! Black hole: what a worker sends, what it receives, or both, is dropped without an error, for longer than it waits
//! for any answer. Other workers run its jobs. When the connection works again, so does the worker, within seconds, on
//! jobs that no other worker holds.

use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::fault;
use torture::proxy::Proxy;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, LEASE, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::recovery;
use super::run::{Run, quantile};

const SHORT: Size = Size { jobs: 0, faults: 1 };
const LONG: Size = Size { jobs: 0, faults: 12 };
/// Longer than the 10 s that a worker waits for an answer.
const HOLE: Duration = Duration::from_secs(12);
const LONG_HOLE: Duration = Duration::from_secs(30);
/// The limit for the time from the end of the hole to the first job that its worker starts.
const BACK: Duration = Duration::from_secs(5);
const CALM_MILLIS: std::ops::Range<u64> = 1_000..2_500;
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let hole = if fixture.short { HOLE } else { LONG_HOLE };
    let proxy = Proxy::start(fixture.upstream()).await?;
    let args = ["--slots", "8", "--poll-interval", "200ms"];
    let mut lonely = Fleet::start(fixture, fixture.url_through(proxy.port()), History::Quick, &args, 1).await?;
    // This worker has enough slots for all jobs that are enqueued while it is the only one.
    let many = ["--slots", "64", "--poll-interval", "200ms"];
    let mut others = Fleet::start(fixture, fixture.worker_url(), History::Quick, &many, 1).await?;
    // Jobs take a second each. So the jobs that the worker runs when the hole opens end in the hole.
    let mix = Mix { bulk: 20, long: 30, long_millis: 1_000, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, usize::MAX), Duration::from_millis(40));
    let conn = fixture.connect().await?;
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut back = Vec::new();
    // The hole is in both directions, then only to the client, then only to the server, and so on.
    for round in 0..size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        until_it_has_jobs(&conn, &lonely.ids()).await?;
        for pid in lonely.ids() {
            fault(&conn, "black hole", Some(pid)).await?;
        }
        proxy.weather(|weather| {
            weather.hole_to_server = round % 3 != 1;
            weather.hole_to_client = round % 3 != 2;
        });
        tokio::time::sleep(hole).await;
        proxy.weather(|weather| (weather.hole_to_server, weather.hole_to_client) = (false, false));
        back.push(until_it_works(&conn, &lonely.ids()).await?);
    }
    let ledger = load.stop().await?.ledger();
    let drained = fixture.at_rest(REST).await?;
    let dead = [lonely.dead()?, others.dead()?].concat();
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, one worker of two in the hole for {} s", run.load, hole.as_secs());
    run.faults = size.faults;
    run.recovery = back;
    let rescued = quantile(&recovery::of_crashes(&run.record), 1.0);
    run.expect(rescued.is_some(), || "no job of the worker in the hole was rescued: nothing was tested".to_owned());
    let bar = (LEASE + Duration::from_secs(2)).as_secs_f64();
    run.expect_in_time(rescued.is_some_and(|longest| longest <= bar), || {
        format!("the jobs of the worker in the hole were free after {rescued:?} s at the latest")
    });
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect_within(1.0, BACK);
    if drained {
        lonely.stop().await?;
        others.stop().await?;
    }
    Ok(run)
}

/// Waits until one of these processes holds jobs that it has just claimed.
async fn until_it_has_jobs(conn: &Client, pids: &[u32]) -> Result<()> {
    let began = Instant::now();
    let pids: Vec<i32> = pids.iter().map(|pid| pid.cast_signed()).collect();
    let held = "select count(*) from jobs.running job join jobs.worker on worker.id = job.worker \
                where pid = any($1) and (args #>> '{work,millis}')::integer > 500 \
                and claimed_at > now() - interval '0.2 s'";
    while conn.query_one(held, &[&pids]).await?.get::<_, i64>(0) == 0 && began.elapsed() < REST {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Waits until one of these processes starts a job. Returns the time that took, in seconds.
async fn until_it_works(conn: &Client, pids: &[u32]) -> Result<f64> {
    let open = Instant::now();
    let pids: Vec<i32> = pids.iter().map(|pid| pid.cast_signed()).collect();
    let now: chrono::DateTime<chrono::Utc> = conn.query_one("select clock_timestamp()", &[]).await?.get(0);
    let begun = "select count(*) from torture.event where what = 'start' and pid = any($1) and at > $2";
    while conn.query_one(begun, &[&pids, &now]).await?.get::<_, i64>(0) == 0 && open.elapsed() < REST {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(open.elapsed().as_secs_f64())
}
