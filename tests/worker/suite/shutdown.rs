//! The shutdown of a worker: running jobs may end, unfinished jobs are released, and no attempt is consumed.

use std::time::Duration;

use diesel_jobs::{JobContext, JobError, JobState, State, job};
use support::{Db, Probe, Running, registry};

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

#[job]
async fn polite(ctx: &JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    probe.say(ctx, "started");
    ctx.cancelled().await;
    probe.say(ctx, "asked to stop");
    Err(JobError::msg("interrupted"))
}

#[job]
fn deaf(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass_blocking();
}

async fn a_drain_lets_running_jobs_end_and_takes_no_new_ones(db: Db) {
    let (probe, mut events) = Probe::new();
    let running = db.enqueue(Held {}).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe));
    events.expect("started").await;
    worker.handle().shutdown();
    let late = db.enqueue(Held {}).await;
    events.open(2);
    assert_eq!(worker.ended().await.completed, 1);
    assert_eq!(db.record(running).await.state, JobState::Completed);
    assert_eq!(db.record(late).await.state, JobState::Available);
    assert_eq!(db.number("select count(*) as number from jobs.worker").await, 0, "the worker deregistered");
}

async fn a_handler_that_listens_is_asked_to_stop_and_its_error_is_no_failure(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Polite {}).await;
    let worker = Running::start(db.worker(registry![Polite]).state(probe).grace_period(Duration::from_millis(100)));
    events.expect("started").await;
    worker.handle().shutdown();
    events.expect("asked to stop").await;
    assert_eq!(worker.ended().await.released, 1);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
}

async fn a_second_request_ends_the_grace_period(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe).grace_period(Duration::from_secs(3600)));
    events.expect("started").await;
    worker.handle().shutdown();
    worker.handle().shutdown_now();
    assert_eq!(worker.ended().await.released, 1);
    let job = db.record(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Available, 0));
}

async fn a_blocked_thread_does_not_delay_the_shutdown(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Deaf {}).await;
    let worker = Running::start(db.worker(registry![Deaf]).state(probe).grace_period(Duration::from_millis(100)));
    events.expect("started").await;
    assert_eq!(worker.stop().await.released, 1);
    let job = db.record(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Available, 0));
    events.open(1);
}

async fn unfinished_jobs_are_released_after_the_grace_period(db: Db) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..3).map(|_| Held {})).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe).grace_period(Duration::from_millis(200)));
    for _ in 0..3 {
        events.expect("started").await;
    }
    assert_eq!(worker.stop().await.released, 3);
    for id in ids {
        let (job, failures) = db.show(id).await;
        assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
    }
}

async fn a_released_job_is_run_by_the_next_worker(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let first = Running::start(db.worker(registry![Held]).state(probe.clone()).grace_period(Duration::ZERO));
    events.expect("started").await;
    first.stop().await;
    let second = Running::start(db.worker(registry![Held]).state(probe));
    assert_eq!(events.expect("started").await.attempt, 1, "the attempt was not consumed");
    events.open(1);
    db.await_state(id, JobState::Completed).await;
    second.stop().await;
}

support::on_each_database! {
    a_drain_lets_running_jobs_end_and_takes_no_new_ones,
    a_handler_that_listens_is_asked_to_stop_and_its_error_is_no_failure,
    a_second_request_ends_the_grace_period,
    a_blocked_thread_does_not_delay_the_shutdown,
    unfinished_jobs_are_released_after_the_grace_period,
    a_released_job_is_run_by_the_next_worker,
}
