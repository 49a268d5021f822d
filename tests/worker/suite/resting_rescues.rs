//! A worker that rests rescues the jobs of workers that have died.

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::{JobState, job};
use support::{Db, Process, registry, until};
use worker_app::Linger;

use crate::resting::resting;

#[job]
async fn quick() {}

/// Its poll finds the dead worker. The rescue must not begin before the heartbeat that follows the poll is answered: it
/// compares the newest heartbeat that the worker knows of with the one that is stored. Here the heartbeat is always
/// stored first, because the rescue waits for the lock of a table that only it needs.
async fn a_resting_worker_rescues(db: Db) {
    let (worker, _) = resting(&db, db.worker(registry![Quick])).await;
    // The worker polls once more when a job expires, and not because it was notified, which would end its rest.
    db.execute(
        "begin;
insert into jobs.expiry (job_id, start_by, after) values (1, now() + interval '8 seconds', '1 second');
insert into jobs.worker (id, host, pid, queues, lease) values (gen_random_uuid(), 'dead', 1, '{}', interval '4 seconds');
notify jobs, 'default';
commit",
    )
    .await;
    let mut lock = AsyncPgConnection::establish(db.url()).await.unwrap();
    lock.batch_execute("begin; lock table jobs.job_error in access exclusive mode").await.unwrap();
    let beaten = "select count(*) as number from jobs.worker w
        where w.lease > interval '1 hour' and w.heartbeat_at > (select d.heartbeat_at + interval '8 seconds' from jobs.worker d where d.host = 'dead')";
    db.await_number(1, beaten).await;
    lock.batch_execute("commit").await.unwrap();
    db.await_number(0, "select count(*) as number from jobs.worker where host = 'dead'").await;
    worker.stop().await;
}

/// They are searched for after 50 polls. A notification about a queue makes the worker poll.
async fn a_resting_worker_searches_for_the_jobs_of_workers_without_a_row(db: Db) {
    let id = db.enqueue(Linger { millis: 600_000 }).await;
    let mut dies = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--queues", "default"]);
    db.await_state(id, JobState::Running).await;
    let (worker, _) = resting(&db, db.worker(registry![Quick])).await;
    dies.kill();
    db.execute("delete from jobs.worker where lease < interval '1 hour'").await;
    let mut conn = db.conn().await;
    until("the search", async || {
        conn.execute("notify jobs, 'default'").await;
        (db.record(id).await.state == JobState::Available).then_some(())
    })
    .await;
    worker.stop().await;
}

support::on_postgres! {
    a_resting_worker_rescues,
    a_resting_worker_searches_for_the_jobs_of_workers_without_a_row,
}
