//! A transaction that enqueued before a worker fell asleep, and commits afterwards, notifies nobody.

use std::time::{Duration, Instant};

use diesel_jobs::{JobId, job};
use support::{Conn, Db, Running, registry};

/// The next look, if the worker did not look more often at first.
const POLL: Duration = Duration::from_secs(60);
/// From falling asleep to the commit. The look after the flag was raised is over by then, and so are the rescans that follow
/// the last claims: where claims are slow they find the job, too.
const LATE: Duration = Duration::from_secs(4);
/// The worker looks again when it has slept for twice as long as at its last look.
const SOON: Duration = Duration::from_secs(12);

#[job]
async fn short() {}

const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// Enqueues in a transaction that stays open, while the worker is too busy to ask for a notification.
async fn enqueued_while_nobody_sleeps(feeder: &mut Conn, late: &mut Conn) -> JobId {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < support::LIMIT, "the worker asks to be woken for every job");
        for _ in 0..20 {
            feeder.enqueue(Short {}).await;
        }
        if feeder.number(IDLE).await == 1 {
            continue;
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
    let id = enqueued_while_nobody_sleeps(&mut feeder, &mut late).await;
    db.await_number(1, IDLE).await;
    tokio::time::sleep(LATE).await;
    late.execute("commit").await;
    let committed = Instant::now();
    db.await_number(1, &format!("select count(*) as number from jobs.finished where id = {id}")).await;
    assert!(committed.elapsed() < SOON, "found {:?} after its commit", committed.elapsed());
    worker.stop().await;
}

support::on_postgres! { a_commit_after_the_last_look_does_not_wait_for_the_poll }
