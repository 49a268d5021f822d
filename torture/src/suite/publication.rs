//! Publication: all tables are published, as for change data capture and for migrations between servers. Two other
//! databases subscribe. One of them is disabled while jobs are enqueued and run, workers are killed, and history is
//! pruned.
//!
//! Nothing is delayed, and in the end both copies are equal to the published tables.

mod subscriber;

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::{NewJob, enqueue_all};
use torture::checker::Promise;
use torture::cluster::connect;
use torture::history::copy;
use torture::workload::hostile::Hostile;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, LEASE, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::recovery::of_crashes;
use super::run::Run;
use subscriber::Subscriber;

const SHORT: Size = Size { jobs: 1_500, faults: 3 };
const LONG: Size = Size { jobs: 30_000, faults: 20 };
const WORKERS: usize = 2;
/// The time between two kills.
const CALM: Duration = Duration::from_millis(700);
/// The number of jobs whose arguments are stored in `jobs.payload`. The history of half of them is pruned.
const LARGE: usize = 100;
const EXPIRED: &str = "update jobs.finished set expires_at = now() where kind = 'hostile' and id % 2 = 0";
const PUBLICATION: &str = "create publication everything for all tables";
/// Drops the slots of a publisher that was stopped during an earlier run.
const LEFT_BEHIND: &str = "select pg_drop_replication_slot(slot_name) from pg_replication_slots";
/// The limit for the time from a kill until its jobs are available, in addition to the lease.
const RESCUE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let cluster = fixture.another_cluster("published", "wal_level = logical\n")?;
    connect(&cluster.url("postgres")).await?.batch_execute(LEFT_BEHIND).await?;
    let published = fixture.on(&cluster).await?;
    let (conn, notes) = (published.connect().await?, fixture.connect().await?);
    conn.batch_execute(PUBLICATION).await?;
    let up = Subscriber::start(fixture, &published, "up").await?;
    let down = Subscriber::start(fixture, &published, "down").await?;
    down.disable().await?;

    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(&published, published.worker_url(), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, ..Mix::default() };
    let load = Load::start(published.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::from_millis(3));
    let mut application = AsyncPgConnection::establish(&published.url()).await?;
    for time in 0..size.faults {
        enqueue_all(&mut application, large()?).await?;
        tokio::time::sleep(CALM).await;
        conn.execute(EXPIRED, &[]).await?;
        fleet.kill(time % WORKERS, &notes).await?;
    }
    let ledger = load.ended().await?.ledger();
    let followed = up.jobs().await?;
    let drained = published.at_rest(REST).await?;
    let dead = fleet.dead()?;
    if drained {
        fleet.stop().await?;
    }
    let limit = if drained { REST } else { Duration::ZERO };
    down.enable().await?;
    let mut differences = up.differences(&conn, limit).await?;
    differences.extend(down.differences(&conn, limit).await?);
    up.end().await?;
    down.end().await?;

    copy(&notes, &conn).await?;
    let mut run = Run::check(&published, &ledger, Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots, 2 subscribers", run.load);
    run.faults = size.faults;
    run.recovery = of_crashes(&run.record);
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(followed > 0, || "nothing was replicated while jobs ran: nothing was tested".to_owned());
    run.expect(differences.is_empty(), || differences.join("; "));
    run.expect_within(0.99, LEASE + RESCUE);
    Ok(run)
}

fn large() -> Result<Vec<NewJob>> {
    let job = || Hostile { text: "x".repeat(5_000), number: 1.0, nested: serde_json::Value::Null }.into_new_job();
    Ok((0..LARGE).map(|_| job()).collect::<Result<_, _>>()?)
}
