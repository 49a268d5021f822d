//! The end of a worker on the runtime of an application, with handlers that never return: the process ends by itself.

use diesel_jobs::{JobId, JobState};
use support::{Db, LIMIT, Process};
use worker_app::{Hang, Hog};

async fn running(db: &Db, args: &[&str], id: JobId) -> Process {
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_embedded-worker"), db.url(), args);
    db.await_state(id, JobState::Running).await;
    // A claimed job whose handler has not begun yet is released.
    worker.await_line("the handler has begun");
    worker
}

/// Stops the application, which must end by itself, and name the job.
async fn stopped(worker: Process, id: JobId, kind: &str) {
    worker.signal("TERM");
    let ended = worker.ended(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let left = format!("job {id}: its handler `{kind}` has not returned, and the worker ends without it");
    assert!(ended.stderr.contains(&left), "{}", ended.stderr);
}

async fn was_released(db: &Db, id: JobId) {
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
    assert_eq!(db.number("select count(*) as number from jobs.worker").await, 0, "the worker deregistered");
}

async fn a_plain_function_that_never_returns_does_not_keep_the_process(db: Db) {
    let id = db.enqueue(Hang).await;
    stopped(running(&db, &[], id).await, id, "hang").await;
    was_released(&db, id).await;
}

/// On SQLite the transaction keeps the write lock until the process ends, so nothing can be written about the job.
async fn a_transaction_that_never_ends_does_not_keep_the_process(db: Db) {
    let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
    db.execute(&format!("insert into {table} (kind, args) values ('hang_in_transaction', '{{}}')")).await;
    let id = JobId(db.number("select max(id) as number from jobs.job").await);
    stopped(running(&db, &[], id).await, id, "hang_in_transaction").await;
    if db.is_postgres() {
        was_released(&db, id).await;
    } else {
        let (job, _) = db.show(id).await;
        assert_eq!((job.state, job.attempt), (JobState::Running, 1));
        assert_eq!(db.number("select count(*) as number from jobs.worker where draining_at is null").await, 1);
    }
}

async fn an_async_handler_that_blocks_does_not_keep_a_runtime_that_is_shut_down_in_the_background(db: Db) {
    let id = db.enqueue(Hog { until_there: "/no/such/directory/file".to_owned() }).await;
    stopped(running(&db, &["shutdown_background"], id).await, id, "hog").await;
    was_released(&db, id).await;
}

support::on_each_database! {
    a_plain_function_that_never_returns_does_not_keep_the_process,
    a_transaction_that_never_ends_does_not_keep_the_process,
    an_async_handler_that_blocks_does_not_keep_a_runtime_that_is_shut_down_in_the_background,
}
