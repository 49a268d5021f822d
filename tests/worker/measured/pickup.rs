//! The limits for an idle queue: the time from the commit of an enqueue to the start of its handler.

use std::time::{Duration, Instant};

use diesel_jobs::{JobContext, State, job};
use support::{Conn, Db, Running, registry};
use tokio::sync::mpsc;

use crate::table::{alone, print, row};

const JOBS: usize = 400;
const EVERY: Duration = Duration::from_millis(20);

/// Sends the time at which each handler started.
#[derive(Clone)]
struct Starts(mpsc::UnboundedSender<Instant>);

#[job]
async fn start(_ctx: &JobContext, State(starts): State<Starts>) {
    let _ = starts.0.send(Instant::now());
}

#[test]
fn an_idle_queue_is_picked_up_within_5_ms_at_p50_and_25_ms_at_p99() {
    measure("PostgreSQL", Db::postgres(), (5, 25), async |conn| {
        conn.enqueue(Start {}).await;
    });
}

#[test]
fn on_sqlite_a_job_of_the_workers_process_is_picked_up_within_5_ms_at_p50() {
    measure("SQLite, one process", Db::sqlite(), (5, 50), async |conn| {
        conn.enqueue(Start {}).await;
    });
}

/// A plain SQL insert sends no notification inside this process, as an insert of another process does not.
#[test]
fn on_sqlite_a_job_of_another_process_is_picked_up_within_10_ms_at_p50() {
    const INSERT: &str = "insert into jobs_job (kind) values ('start')";
    measure("SQLite, another process", Db::sqlite(), (10, 50), async |conn| conn.execute(INSERT).await);
}

/// A transaction enqueues before a worker becomes idle, and commits four seconds afterwards. It notifies no worker. The
/// worker searches again when it has been idle for twice as long as at its last search.
#[test]
fn a_commit_after_the_last_look_is_found_within_twelve_seconds() {
    let _alone = alone();
    support::run(Db::postgres(), async |db| {
        const IDLE: &str = "select count(*) as number from jobs.worker where idle";
        let (sender, mut starts) = mpsc::unbounded_channel();
        let worker = db.worker(registry![Start]).state(Starts(sender)).poll_interval(Duration::from_secs(60));
        let worker = Running::start(worker);
        db.await_number(1, IDLE).await;
        let (mut conn, mut late) = (db.conn().await, db.conn().await);
        conn.execute("update jobs.worker set idle = false").await;
        late.execute("begin").await;
        late.enqueue(Start {}).await;
        conn.execute("update jobs.worker set idle = true").await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let committed = Instant::now();
        late.execute("commit").await;
        let started = support::within(support::LIMIT, "a start", starts.recv()).await.unwrap();
        let waited = started.saturating_duration_since(committed);
        assert!(waited < Duration::from_secs(12), "found {waited:?} after its commit");
        worker.stop().await;
    });
}

fn measure(name: &str, db: impl Future<Output = Db>, bars: (u64, u64), mut enqueue: impl AsyncFnMut(&mut Conn)) {
    let _alone = alone();
    support::run(db, async |db| {
        let (sender, mut starts) = mpsc::unbounded_channel();
        // The poll is so long that it plays no part: the wake-up is measured.
        let worker = db.worker(registry![Start]).state(Starts(sender)).poll_interval(Duration::from_secs(10));
        let worker = Running::start(worker);
        let mut conn = db.conn().await;
        let mut waits = Vec::with_capacity(JOBS);
        for number in 0..JOBS + 20 {
            enqueue(&mut conn).await;
            let committed = Instant::now();
            let started = support::within(support::LIMIT, "a start", starts.recv()).await.unwrap();
            // The first jobs are not measured, because connections are opened and statements are prepared for them.
            if number >= 20 {
                // A handler may start before the client has received the reply to its commit. Then the wait is 0.
                waits.push(started.saturating_duration_since(committed));
            }
            tokio::time::sleep(EVERY).await;
        }
        worker.stop().await;
        waits.sort_unstable();
        let at = |percent: usize| waits[(waits.len() * percent / 100).min(waits.len() - 1)];
        let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        print(
            &format!("{name}: pick-up of an idle queue, ms from commit to the handler's start"),
            &[row!["jobs", "p50", "p90", "p99", "max"], row![JOBS, ms(at(50)), ms(at(90)), ms(at(99)), ms(at(100))]],
        );
        assert!(at(50) <= Duration::from_millis(bars.0), "p50 is {:?}", at(50));
        assert!(at(99) <= Duration::from_millis(bars.1), "p99 is {:?}", at(99));
    });
}
