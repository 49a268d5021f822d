//! Disk full: all files of the server are on a small disk, which is filled to its last byte under load, for several
//! seconds. At first only the tables cannot grow, and statements fail. In every second round the write-ahead log cannot
//! grow either, because an unused replication slot keeps all of it. Then the server stops itself. It is started again
//! when there is space, as a supervisor would do.
//!
//! Nothing acknowledged is lost, and nothing is done twice. No worker ends, and none sends requests without a pause.
//! Jobs end again soon after there is space.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio_postgres::NoTls;
use torture::checker::Promise;
use torture::cluster::Cluster;
use torture::history::{CRASH, copy, fault};
use torture::process::lines_with;
use torture::proxy::Proxy;
use torture::workload::{Mix, Workload};

use super::database_crash::until_work_goes_on;
use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::not_run::NotRun;
use super::run::Run;

/// The number of jobs is what is enqueued meanwhile. The number of times the disk is full; every second time until the
/// server stops.
const SHORT: Size = Size { jobs: 0, faults: 2 };
const LONG: Size = Size { jobs: 0, faults: 10 };
const WORKERS: usize = 3;
/// Enough for an empty cluster and this load for a while.
const MEBIBYTES: usize = 224;
const SETTINGS: &str = "max_wal_size = '64MB'\nmin_wal_size = '32MB'\n";
/// How long there is space before, and how long there is none then.
const ROOM: Duration = Duration::from_millis(1_500);
const FULL: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The number of failed requests per second that one worker may send. Each operation pauses before it tries again, so
/// they are not more.
const A_SECOND: usize = 60;
/// The limit for the time until a job ends after there is space and the server accepts connections.
const RESUME: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(60);
/// Creates a replication slot that keeps the write-ahead log, because no client reads from it.
const FORGOTTEN_SLOT: &str = "select pg_create_physical_replication_slot('forgotten', true)";
/// Writes 1 MiB to the write-ahead log.
const LOG: &str = "select pg_logical_emit_message(false, 'torture', repeat('x', 1 << 20))";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let disk = fixture.small_disk(MEBIBYTES).map_err(NotRun::because)?;
    let cluster = Cluster::start_with(&disk.path().join("pg"), &super::postgres()?, SETTINGS)?;
    ensure!(
        cluster.home().starts_with(disk.path()),
        "the server is not on the small disk: {}",
        cluster.home().display()
    );
    let small = fixture.on(&cluster).await?;
    let line = Proxy::start(small.upstream()).await?;
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(&small, small.url_through(line.port()), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 50, ..Mix::default() };
    let load = Load::start(small.url(), Workload::new(fixture.seed, mix, usize::MAX), Duration::from_millis(5));
    let notes = fixture.connect().await?;
    let (mut resumed, mut contention, mut crashes) = (Vec::new(), 0, 0);
    for time in 0..size.faults {
        tokio::time::sleep(ROOM).await;
        let witness = small.connect().await?;
        let log = time % 2 == 1;
        if log {
            witness.batch_execute(FORGOTTEN_SLOT).await?;
        }
        fault(&notes, "the disk is full", None).await?;
        disk.fill()?;
        let (before, begun) = (line.contention(), Instant::now());
        // The log can grow for a while, into recycled files.
        while begun.elapsed() < FULL || log && !witness.is_closed() && begun.elapsed() < 3 * FULL {
            // Takes the space that the server has freed.
            disk.fill()?;
            if log && begun.elapsed() > FULL / 3 && !witness.is_closed() {
                // This fails when the server has stopped itself.
                let _ = witness.batch_execute(LOG).await;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let a_second = (line.contention() - before).div_ceil(usize::try_from(begun.elapsed().as_secs())?.max(1));
        contention = contention.max(a_second);
        if witness.is_closed() {
            crashes += 1;
            fault(&notes, CRASH, None).await?;
        }
        disk.free()?;
        supervise(&small).await?;
        if log {
            small.connect().await?.batch_execute("select pg_drop_replication_slot('forgotten')").await?;
        }
        resumed.push(until_work_goes_on(&small).await?);
    }
    let application = load.stop().await?;
    let untold = application.untold();
    let drained = small.at_rest(REST).await?;
    let dead = fleet.dead()?;
    copy(&notes, &small.connect().await?).await?;
    let promise = Promise { claims_may_be_forgotten: crashes > 0, ..Promise::default() };
    let mut run = Run::check(&small, &application.ledger(), promise).await?;
    let refused = lines_with(fixture.logs(), "No space left on device")?;
    let most = A_SECOND * WORKERS;
    run.load = format!(
        "{}, {WORKERS} workers x 16 slots; {contention} failed requests a second without free disk space, {untold} enqueues failed, {crashes} crashes",
        run.load
    );
    run.faults = size.faults;
    run.recovery = resumed;
    run.expect(drained, || format!("not drained {REST:?} after there was room again"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(untold > 0 && refused > 0, || "nothing was refused for want of room: nothing was tested".to_owned());
    run.expect(crashes == size.faults / 2, || {
        format!("the server stopped itself {crashes} times, and should {}", size.faults / 2)
    });
    run.expect(contention <= most, || format!("{contention} requests a second failed, and at most {most} should"));
    run.expect_within(1.0, RESUME);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Starts the server again if it has stopped itself. Returns when it accepts connections.
async fn supervise(small: &Fixture<'_>) -> Result<()> {
    let begun = Instant::now();
    while tokio_postgres::connect(&small.url(), NoTls).await.is_err() {
        if !small.cluster.is_up() {
            return small.cluster.restart();
        }
        // It is minutes if times are not judged.
        ensure!(begun.elapsed() < small.patience(REST), "the server neither works nor ends");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
