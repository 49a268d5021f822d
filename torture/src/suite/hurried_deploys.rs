//! Hurried deploys: all workers are asked to stop, and killed before their grace period is over, as by a supervisor
//! that gives them less time. In a long run, every second deploy keeps the rules of `docker stop` instead: SIGTERM, and
//! SIGKILL ten seconds later. Meanwhile jobs are enqueued, and replacements start. Many jobs outlast every deploy.
//!
//! Nothing is lost, nothing is done twice, and no attempt is consumed: each worker has said in the database that it
//! stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::fault;
use torture::process::{Process, Signal};
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, START, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

/// A fault is a deploy of all workers.
const SHORT: Size = Size { jobs: 0, faults: 2 };
const LONG: Size = Size { jobs: 0, faults: 40 };
const REST: Duration = Duration::from_secs(120);
/// What `docker stop` waits for by default. The default grace period of a worker is two seconds shorter.
const DOCKER: Duration = Duration::from_secs(10);
/// The time for the load between two deploys, and for the end of short jobs after the request to stop.
const CALM_MILLIS: std::ops::Range<u64> = 300..900;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let workers = if fixture.short { 3 } else { 10 };
    let long_millis = if fixture.short { 4_000 } else { 20_000 };
    let args = ["--slots", "8", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, workers).await?;
    let mix = Mix { bulk: 20, long: 20, long_millis, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, usize::MAX), Duration::from_millis(10));
    let conn = Arc::new(fixture.connect().await?);
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut outlived = 0;
    for deploy in 1..=size.faults {
        let docker = !fixture.short && deploy % 2 == 0;
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        let mut stopping = JoinSet::new();
        for place in 0..workers {
            let (old, conn) = (fleet.replace(place)?, conn.clone());
            let rest = Duration::from_millis(rng.random_range(CALM_MILLIS));
            stopping.spawn(async move {
                if docker {
                    docker_stop(old, &conn).await
                } else {
                    kill_while_it_stops(old, &conn, rest).await.map(|()| false)
                }
            });
        }
        while let Some(stopped) = stopping.join_next().await {
            outlived += usize::from(stopped??);
        }
        fleet.at_work().await?;
    }
    let ledger = load.stop().await?.ledger();
    let drained = fixture.at_rest(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{}, {workers} workers x 8 slots", run.load);
    run.faults = size.faults * workers;
    run.expect(drained, || format!("not drained after {REST:?}"));
    let killed = run.record.failures.iter().filter(|failure| failure.kind == "killed").count();
    run.expect(killed > 0, || "no kill hit a job: the load was too small".to_owned());
    // On a busy machine, some may take longer than their grace period and two seconds.
    let in_time = size.faults / 2 * workers / 2;
    run.expect(outlived <= in_time, || format!("{outlived} workers had not ended ten seconds after SIGTERM"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Asks the worker to stop, waits until it has said so in the database, and kills it a while later. A worker without
/// jobs may have ended.
async fn kill_while_it_stops(mut worker: Process, conn: &Client, rest: Duration) -> Result<()> {
    let pid = worker.id();
    fault(conn, "asked to stop", Some(pid)).await?;
    worker.signal(Signal::TERM)?;
    let asked = Instant::now();
    while worker.is_alive()? {
        let says = "select from jobs.worker where pid = $1 and draining_at is not null";
        if !conn.query(says, &[&pid.cast_signed()]).await?.is_empty() {
            break;
        }
        if asked.elapsed() > START {
            bail!("process {pid} was asked to stop, and has not said so in the database after {START:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(rest).await;
    fault(conn, "kill", Some(pid)).await?;
    worker.kill()
}

/// Asks the worker to stop, and kills it if it has not ended after ten seconds. Returns whether it had to.
async fn docker_stop(mut worker: Process, conn: &Client) -> Result<bool> {
    let pid = worker.id();
    fault(conn, "asked to stop", Some(pid)).await?;
    worker.signal(Signal::TERM)?;
    let asked = Instant::now();
    while worker.is_alive()? {
        if asked.elapsed() > DOCKER {
            fault(conn, "kill", Some(pid)).await?;
            return worker.kill().map(|()| true);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(false)
}
