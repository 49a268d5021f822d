//! The limits for a shutdown, the grace period and one second, and for the end of an attempt.

use std::time::{Duration, Instant};

use diesel_jobs::{JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

use crate::table::alone_on;

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

async fn unfinished_jobs_are_released_after_the_grace_period(db: Db) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..3).map(|_| Held {})).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe).grace_period(Duration::from_millis(200)));
    for _ in 0..3 {
        events.expect("started").await;
    }
    let asked = Instant::now();
    assert_eq!(worker.stop().await.released, 3);
    assert!(asked.elapsed() < Duration::from_millis(1200), "grace + 1 s, but it took {:?}", asked.elapsed());
    for id in ids {
        let (job, failures) = db.show(id).await;
        assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
    }
}

async fn a_second_request_ends_the_grace_period_at_once(db: Db) {
    let (probe, mut events) = Probe::new();
    db.enqueue(Held {}).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe).grace_period(Duration::from_secs(600)));
    events.expect("started").await;
    worker.handle().shutdown();
    let asked = Instant::now();
    worker.handle().shutdown_now();
    assert_eq!(worker.ended().await.released, 1);
    assert!(asked.elapsed() < Duration::from_secs(2), "took {:?}", asked.elapsed());
}

#[job(timeout = "1h")]
fn deaf(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass_blocking();
}

async fn a_function_that_goes_on_keeps_no_worker_for_seconds(db: Db) {
    let (probe, mut events) = Probe::new();
    db.enqueue(Deaf {}).await;
    let worker = Running::start(db.worker(registry![Deaf]).state(probe).grace_period(Duration::from_millis(50)));
    events.expect("started").await;
    let asked = Instant::now();
    assert_eq!(worker.stop().await.released, 1);
    assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
}

#[job(timeout = "150ms", max_attempts = 1)]
async fn endless(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    std::future::pending().await
}

async fn an_async_handler_is_stopped_soon_after_its_time_limit(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Endless {}).await;
    let worker = Running::start(db.worker(registry![Endless]).state(probe));
    events.expect("started").await;
    let asked = Instant::now();
    db.await_state(id, JobState::Discarded).await;
    assert!(asked.elapsed() < Duration::from_secs(2), "took {:?}", asked.elapsed());
    worker.stop().await;
}

alone_on! {
    on_postgres by postgres {
        unfinished_jobs_are_released_after_the_grace_period,
        a_second_request_ends_the_grace_period_at_once,
        a_function_that_goes_on_keeps_no_worker_for_seconds,
        an_async_handler_is_stopped_soon_after_its_time_limit,
    }
    on_sqlite by sqlite {
        unfinished_jobs_are_released_after_the_grace_period,
        a_second_request_ends_the_grace_period_at_once,
        a_function_that_goes_on_keeps_no_worker_for_seconds,
        an_async_handler_is_stopped_soon_after_its_time_limit,
    }
}
