//! A transaction enqueues before a worker becomes idle, and commits afterwards. It notifies no worker.

use std::time::Duration;

use diesel_jobs::job;
use support::{Db, Running, registry};

/// Without its early searches, the worker would search only after this time.
const POLL: Duration = Duration::from_secs(3600);
/// The time from the moment the worker becomes idle to the commit. By then the search after the flag was set is over,
/// and so are the rescans after the last claims. If claims are slow, these may find the job, too.
const LATE: Duration = Duration::from_secs(4);

#[job]
async fn short() {}

const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// The worker searches again when it has been idle for twice as long as at its last search.
async fn a_commit_after_the_last_look_does_not_wait_for_the_poll(db: Db) {
    let (mut conn, mut late) = (db.conn().await, db.conn().await);
    let worker = Running::start(db.worker(registry![Short]).poll_interval(POLL));
    db.await_number(1, IDLE).await;
    // As if the worker were busy: the enqueue finds no idle worker to notify.
    conn.execute("update jobs.worker set idle = false").await;
    late.execute("begin").await;
    let id = late.enqueue(Short {}).await;
    conn.execute("update jobs.worker set idle = true").await;
    tokio::time::sleep(LATE).await;
    late.execute("commit").await;
    db.await_number(1, &format!("select count(*) as number from jobs.finished where id = {id}")).await;
    worker.stop().await;
}

support::on_postgres! { a_commit_after_the_last_look_does_not_wait_for_the_poll }
