//! How long ended jobs are kept.

use std::time::Duration;

use diesel_jobs::worker::Retention;
use diesel_jobs::{JobContext, JobError, job};
use support::{Db, Running, registry};

#[job(retain = "none", max_attempts = 2, backoff = "fixed(1ms)")]
async fn leaves_no_trace(ctx: &JobContext) -> Result<(), JobError> {
    if ctx.attempt() == 1 { Err(JobError::msg("at first")) } else { Ok(()) }
}

#[job(retain = "forever")]
async fn stays() {}

#[job]
async fn stays_a_moment() {}

async fn a_job_that_is_not_retained_is_gone_with_its_errors_when_it_completes(db: Db) {
    db.enqueue(LeavesNoTrace {}).await;
    let stats = db.work(registry![LeavesNoTrace]).await;
    assert_eq!((stats.retried, stats.completed), (1, 1));
    assert_eq!(db.number("select count(*) as number from jobs.job").await, 0);
    assert_eq!(db.number("select count(*) as number from jobs.job_error").await, 0);
}

/// The pruner runs soon after the start, and then about once a minute.
async fn the_worker_prunes_expired_jobs_and_nothing_else(db: Db) {
    let stays = db.enqueue(Stays {}).await;
    db.conn().await.enqueue_all((0..5).map(|_| StaysAMoment {})).await;
    let retention = Retention { completed: Duration::from_millis(1), ..Retention::default() };
    let worker = Running::start(db.worker(registry![Stays, StaysAMoment]).retention(retention));
    db.await_number(6, "select count(*) as number from jobs.job where state = 'completed'").await;
    db.await_number(1, "select count(*) as number from jobs.job").await;
    db.show(stays).await;
    worker.stop().await;
}

support::on_each_database! {
    a_job_that_is_not_retained_is_gone_with_its_errors_when_it_completes,
    the_worker_prunes_expired_jobs_and_nothing_else,
}
