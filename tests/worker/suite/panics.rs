//! A handler that panics fails its attempt. The failure has the panic's message and place. The worker and the slot can
//! still be used.

use diesel_jobs::handler::FailureKind;
use diesel_jobs::operator::AttemptError;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Job, JobContext, JobId, JobState, NewJob, State, job};
use serde::{Deserialize, Deserializer, Serialize};
use support::{Db, Probe, Running, registry};

#[job(max_attempts = 1)]
async fn panics_with_a_text() {
    panic!("the roof is on fire")
}

#[job(max_attempts = 1)]
async fn panics_after_a_while(number: i64) {
    tokio::task::yield_now().await;
    panic!("number {number} is too much")
}

#[job(max_attempts = 1)]
fn panics_on_a_thread() {
    panic!("a thread is no shelter")
}

#[job(max_attempts = 1)]
async fn panics_without_a_text() {
    std::panic::panic_any(7_i32)
}

#[job(max_attempts = 1)]
async fn panics_in_drop() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("not even cleaning up")
        }
    }
    let _bomb = Bomb;
    tokio::task::yield_now().await;
}

#[job(max_attempts = 1, timeout = "1h")]
async fn panics_in_drop_when_stopped(ctx: &JobContext, State(probe): State<Probe>) {
    struct Bomb(Probe, JobContext);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.say(&self.1, "dropped");
            panic!("not even when stopped")
        }
    }
    probe.say(ctx, "started");
    let _bomb = Bomb(probe, ctx.clone());
    std::future::pending().await
}

/// Panics when it is deserialized.
#[derive(Serialize)]
struct Trap;

impl<'de> Deserialize<'de> for Trap {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("serde met its match")
    }
}

#[job(max_attempts = 1)]
async fn takes_a_trap(trap: Trap) {
    let Trap = trap;
}

#[job]
async fn fine() {}

/// Runs a panicking job and a good one in the same slot. Returns the stored failure.
async fn failure_of(db: &Db, registry: Registry, job: impl Into<diesel_jobs::JobBuilder>) -> AttemptError {
    let id: JobId = db.enqueue(job.into()).await;
    let after = db.enqueue(Fine {}.priority(-1)).await;
    let worker = db.worker(registry.with::<Fine>()).slots(1).build().unwrap();
    let stats = support::within(support::LIMIT, "the worker to run dry", worker.run_until_empty()).await.unwrap();
    assert_eq!((stats.discarded, stats.completed), (1, 1), "the worker went on");
    assert_eq!(db.record(after).await.state, JobState::Completed);
    let (job, mut failures) = db.show(id).await;
    assert_eq!((job.state, failures.len()), (JobState::Discarded, 1));
    failures.remove(0)
}

/// Checks that the failure has the panic's message and place.
fn tells(failure: &AttemptError, message: &str) {
    assert_eq!(failure.kind, FailureKind::Panic, "{failure:?}");
    assert!(failure.message.contains(message) && failure.message.contains("panics.rs:"), "{failure:?}");
    assert!(failure.place.as_deref().is_some_and(|place| place.contains("panics.rs:")), "{failure:?}");
    assert!(failure.fingerprint.is_some(), "{failure:?}");
    // All tests run with RUST_BACKTRACE.
    assert!(failure.backtrace.as_deref().is_some_and(is_of_the_handler), "{failure:?}");
}

/// Whether a backtrace begins with the application's functions and contains neither ours nor the runtime's.
fn is_of_the_handler(backtrace: &str) -> bool {
    backtrace.contains("panics.rs:") && !backtrace.contains("tokio::runtime") && !backtrace.contains("rust_panic")
}

async fn an_async_handler(db: Db) {
    tells(&failure_of(&db, registry![PanicsWithAText], PanicsWithAText {}).await, "the roof is on fire");
}

async fn an_async_handler_after_an_await(db: Db) {
    let job = PanicsAfterAWhile { number: 42 };
    tells(&failure_of(&db, registry![PanicsAfterAWhile], job).await, "number 42 is too much");
}

async fn a_blocking_handler(db: Db) {
    tells(&failure_of(&db, registry![PanicsOnAThread], PanicsOnAThread {}).await, "a thread is no shelter");
}

async fn a_panic_without_a_text(db: Db) {
    tells(&failure_of(&db, registry![PanicsWithoutAText], PanicsWithoutAText {}).await, "a value that is no text");
}

async fn a_destructor(db: Db) {
    tells(&failure_of(&db, registry![PanicsInDrop], PanicsInDrop {}).await, "not even cleaning up");
}

async fn a_destructor_of_a_handler_that_timed_out(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(PanicsInDropWhenStopped {}).await;
    let after = db.enqueue(Fine {}.priority(-1)).await;
    let worker = Running::start(db.worker(registry![PanicsInDropWhenStopped, Fine]).state(probe).slots(1));
    events.expect("started").await;
    worker.handle().end_time_limits();
    events.expect("dropped").await;
    db.await_state(after, JobState::Completed).await;
    let stats = worker.stop().await;
    assert_eq!((stats.discarded, stats.completed), (1, 1), "the worker went on");
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, failures.len()), (JobState::Discarded, 1));
    assert_eq!(failures[0].kind, FailureKind::Timeout);
}

async fn a_deserializer(db: Db) {
    tells(&failure_of(&db, registry![TakesATrap], TakesATrap { trap: Trap }).await, "serde met its match");
}

async fn a_message_with_nul_is_stored(db: Db) {
    let mut job = NewJob::raw("panics_with_nul", "{}");
    job.max_attempts = 1;
    let id = db.enqueue(job).await;
    db.work(registry![PanicsWithNul]).await;
    tells(&db.failures(id).await[0], "before \u{2400} after");
}

#[job]
async fn panics_with_nul() {
    panic!("before \0 after")
}

support::on_each_database! {
    an_async_handler,
    an_async_handler_after_an_await,
    a_blocking_handler,
    a_panic_without_a_text,
    a_destructor,
    a_destructor_of_a_handler_that_timed_out,
    a_deserializer,
    a_message_with_nul_is_stored,
}
