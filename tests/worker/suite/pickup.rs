//! An idle worker starts each job, wherever it comes from. Its poll is so long that it plays no part.

use std::time::Duration;

use diesel_jobs::{JobContext, State, job};
use support::{Conn, Db, Probe, Running, registry};

#[job]
async fn start(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
}

async fn each_is_started(db: Db, mut enqueue: impl AsyncFnMut(&mut Conn)) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Start]).state(probe).poll_interval(Duration::from_secs(3600)));
    let mut conn = db.conn().await;
    for _ in 0..50 {
        enqueue(&mut conn).await;
        events.expect("started").await;
    }
    assert_eq!(worker.stop().await.completed, 50);
}

async fn an_idle_worker_starts_each_job(db: Db) {
    each_is_started(db, async |conn: &mut Conn| {
        conn.enqueue(Start {}).await;
    })
    .await;
}

/// A plain SQL insert sends no notification inside this process, as an insert of another process does not.
async fn an_idle_worker_starts_each_job_of_another_process(db: Db) {
    const INSERT: &str = "insert into jobs_job (kind) values ('start')";
    each_is_started(db, async |conn: &mut Conn| conn.execute(INSERT).await).await;
}

support::on_each_database! { an_idle_worker_starts_each_job }

mod another_process {
    use super::an_idle_worker_starts_each_job_of_another_process;

    support::on_sqlite! { an_idle_worker_starts_each_job_of_another_process }
}
