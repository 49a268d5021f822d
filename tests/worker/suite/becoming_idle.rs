//! A transaction enqueues before a worker becomes idle, and commits afterwards. It notifies no worker.

use std::time::{Duration, Instant};

use diesel_jobs::{JobId, job};
use support::{Conn, Db, Running, registry};

/// Without its early searches, the worker would search only after this time.
const POLL: Duration = Duration::from_secs(60);
/// The time from the moment the worker becomes idle to the commit. By then the search after the flag was set is over,
/// and so are the rescans after the last claims. If claims are slow, these would find the job, too.
const LATE: Duration = Duration::from_secs(4);
/// The worker searches again when it has been idle for twice as long as at its last search.
const SOON: Duration = Duration::from_secs(12);

#[job]
async fn short() {}

const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// Enqueues in a transaction that stays open, while the idle flag of the worker is not set.
async fn enqueued_while_no_worker_is_idle(feeder: &mut Conn, late: &mut Conn) -> JobId {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < support::LIMIT, "the worker sets its idle flag after every job");
        // A busy worker clears its flag after a second. A fast one has run these by then, and polls busily.
        feeder.enqueue_all((0..20_000).map(|_| Short {})).await;
        while feeder.number(IDLE).await == 1 && begun.elapsed() < support::LIMIT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        late.execute("begin").await;
        let id = late.enqueue(Short {}).await;
        if feeder.number(IDLE).await == 0 {
            return id;
        }
        late.execute("rollback").await;
    }
}

async fn a_commit_after_the_last_look_does_not_wait_for_the_poll(db: Db) {
    let (mut feeder, mut late) = (db.conn().await, db.conn().await);
    let worker = Running::start(db.worker(registry![Short]).poll(POLL));
    let id = enqueued_while_no_worker_is_idle(&mut feeder, &mut late).await;
    db.await_number(1, IDLE).await;
    tokio::time::sleep(LATE).await;
    late.execute("commit").await;
    let committed = Instant::now();
    db.await_number(1, &format!("select count(*) as number from jobs.finished where id = {id}")).await;
    assert!(committed.elapsed() < SOON, "found {:?} after its commit", committed.elapsed());
    worker.stop().await;
}

support::on_postgres! { a_commit_after_the_last_look_does_not_wait_for_the_poll }
