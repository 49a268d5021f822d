//! An attempt that takes too long is recorded as such. Its slot is occupied until it has really ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diesel_jobs::handler::FailureKind;
use diesel_jobs::{Job as _, JobContext, JobState, State, job};
use support::{Db, Events, Probe, Running, registry};

#[job(timeout = "1h", max_attempts = 1)]
async fn sleeps_for_ever(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    std::future::pending().await
}

#[job(timeout = "1h", max_attempts = 1)]
async fn cleans_up(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    struct Guard(Probe, JobContext);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.say(&self.1, "dropped");
        }
    }
    let _guard = Guard(probe, ctx.clone());
    std::future::pending().await
}

#[job(timeout = "1h", max_attempts = 1)]
fn holds_its_thread(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass_blocking();
    probe.say(ctx, if ctx.is_cancelled() { "ended, asked to" } else { "ended" });
}

/// Ends the handler below. It is a state, so that each test has its own.
#[derive(Clone, Default)]
struct Enough(Arc<AtomicBool>);

#[job(timeout = "1h", max_attempts = 1)]
async fn never_yields(ctx: &JobContext, State(enough): State<Enough>, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    while !enough.0.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    probe.say(ctx, "ended");
}

#[job]
async fn quick(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "quick");
}

/// Runs a job of a queue with a free slot. A claim is for all queues with free slots, so the claim of this job would
/// bring the jobs of any other queue if it had one.
async fn one_more_claim(db: &Db, events: &mut Events, queue: &str) {
    let id = db.enqueue(Quick {}.queue(queue)).await;
    assert_eq!(events.expect("quick").await.job, id);
}

async fn an_async_handler_is_stopped_and_recorded(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(SleepsForEver {}).await;
    let worker = Running::start(db.worker(registry![SleepsForEver]).state(probe));
    events.expect("started").await;
    worker.handle().end_time_limits();
    db.await_state(id, JobState::Discarded).await;
    let failure = db.failures(id).await.remove(0);
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(failure.message.contains("3600s"), "{}", failure.message);
    worker.stop().await;
}

async fn a_handler_that_timed_out_runs_its_destructors(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(CleansUp {}).await;
    let worker = Running::start(db.worker(registry![CleansUp]).state(probe));
    events.expect("started").await;
    worker.handle().end_time_limits();
    events.expect("dropped").await;
    db.await_state(id, JobState::Discarded).await;
    worker.stop().await;
}

async fn a_blocking_handler_is_recorded_and_keeps_its_slot_until_it_ends(db: Db) {
    let (probe, mut events) = Probe::new();
    let slow = db.enqueue(HoldsItsThread {}).await;
    let worker = db.worker(registry![HoldsItsThread, Quick]).state(probe).declare_queue("aside");
    let worker = Running::start(worker.queue("default", 1).queue("aside", 1));
    events.expect("started").await;
    worker.handle().end_time_limits();
    let next = db.enqueue(Quick {}).await;
    db.await_state(slow, JobState::Discarded).await;
    assert_eq!(db.failures(slow).await[0].kind, FailureKind::Timeout);
    one_more_claim(&db, &mut events, "aside").await;
    assert_eq!(db.record(next).await.state, JobState::Available, "the only slot is still taken");
    events.open(1);
    events.expect("ended, asked to").await;
    assert_eq!(events.expect("quick").await.job, next);
    assert_eq!(worker.stop().await.completed, 2);
    assert_eq!(db.record(slow).await.state, JobState::Discarded, "its late end changes nothing");
}

async fn a_handler_that_never_yields_is_recorded_while_others_go_on(db: Db) {
    let (probe, mut events) = Probe::new();
    let stuck = db.enqueue(NeverYields {}.queue("stuck")).await;
    let enough = Enough::default();
    let worker = db.worker(registry![NeverYields, Quick]).state(probe).state(enough.clone());
    let worker = Running::start(worker.declare_queue("stuck").queue("stuck", 1).queue("default", 4));
    events.expect("started").await;
    let others = db.conn().await.enqueue_all((0..10).map(|_| Quick {})).await;
    for _ in 0..10 {
        events.expect("quick").await;
    }
    worker.handle().end_time_limits();
    db.await_state(stuck, JobState::Discarded).await;
    assert_eq!(db.failures(stuck).await[0].kind, FailureKind::Timeout);
    let waiting = db.enqueue(Quick {}.queue("stuck")).await;
    one_more_claim(&db, &mut events, "default").await;
    assert_eq!(db.record(waiting).await.state, JobState::Available, "the slot is still taken");
    enough.0.store(true, Ordering::Relaxed);
    events.expect("ended").await;
    assert_eq!(events.expect("quick").await.job, waiting);
    assert_eq!(worker.stop().await.completed, others.len() as u64 + 2);
}

/// Has no time limit of its own.
#[job(max_attempts = 1)]
async fn hangs(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "hangs");
    std::future::pending::<()>().await;
}

#[job(max_attempts = 1, timeout = "2h")]
async fn has_its_own(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "has its own");
    std::future::pending::<()>().await;
}

async fn the_workers_timeout_holds_where_the_kind_has_none(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Hangs, HasItsOwn]).state(probe).timeout(Duration::from_secs(3600));
    let worker = Running::start(worker);
    let own = db.enqueue(HasItsOwn {}).await;
    events.expect("has its own").await;
    let hangs = db.enqueue(Hangs {}).await;
    events.expect("hangs").await;
    worker.handle().end_time_limits();
    for (id, limit) in [(own, "7200s"), (hangs, "3600s")] {
        db.await_state(id, JobState::Discarded).await;
        let failure = db.failures(id).await.remove(0);
        assert_eq!(failure.kind, FailureKind::Timeout);
        assert!(failure.message.contains(limit), "{failure:?}");
    }
    worker.stop().await;
}

support::on_each_database! {
    the_workers_timeout_holds_where_the_kind_has_none,
    an_async_handler_is_stopped_and_recorded,
    a_handler_that_timed_out_runs_its_destructors,
    a_blocking_handler_is_recorded_and_keeps_its_slot_until_it_ends,
    a_handler_that_never_yields_is_recorded_while_others_go_on,
}
