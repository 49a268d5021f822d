//! Workers that are killed while they stop: real processes and real signals. The tests do not wait for the ends of
//! leases, they move the times of heartbeats.

use std::time::Duration;

use diesel_jobs::handler::FailureKind;
use diesel_jobs::operator::Asked;
use diesel_jobs::{JobContext, JobId, JobState, State, job};
use support::{Db, Ended, LIMIT, Probe, Process, Running, registry, until};
use worker_app::Linger;

use crate::blocked_threads::Blocked;

const LONG: Linger = Linger { millis: 600_000 };

fn args(grace_period: &str) -> [&str; 7] {
    ["run", "--poll-interval", "100ms", "--lease", "20s", "--grace-period", grace_period]
}

fn start(db: &Db) -> Process {
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args("1h"));
    worker.await_line("worker started");
    worker
}

/// Waits until this process has said in the database that it drains.
async fn says_so(db: &Db, pid: u32) {
    let says = format!("select count(*) as number from jobs.worker where pid = {pid} and draining_at is not null");
    db.await_number(1, &says).await;
}

/// Waits until another worker than `before` runs the job. Returns that worker.
async fn runs_elsewhere(
    db: &Db,
    id: JobId,
    before: Option<diesel_jobs::worker::WorkerId>,
) -> Option<diesel_jobs::worker::WorkerId> {
    let job = until("another worker to run the job", async || {
        Some(db.record(id).await).filter(|job| job.state == JobState::Running && job.worker != before)
    });
    job.await.worker
}

/// Asks the worker to stop, and kills it before it has ended.
async fn deploy(db: &Db, mut worker: Process) {
    worker.signal("TERM");
    says_so(db, worker.id()).await;
    worker.kill();
    db.age_worker(worker.id()).await;
}

async fn deploys_that_kill_a_long_job_consume_no_attempt(db: Db) {
    let id = db.enqueue(LONG).await;
    let (mut holder, mut killed) = (None, Vec::new());
    let mut next = start(&db);
    for _ in 0..3 {
        holder = runs_elsewhere(&db, id, holder).await;
        killed.push(next.id());
        deploy(&db, std::mem::replace(&mut next, start(&db))).await;
        next.await_line("killed while they were stopping");
    }
    runs_elsewhere(&db, id, holder).await;
    let (job, failures) = db.show(id).await;
    assert_eq!((job.attempt, job.max_attempts, job.crashes), (1, 25, 0));
    assert_eq!(failures.len(), 3);
    for (failure, pid) in failures.iter().zip(killed) {
        assert_eq!((failure.kind, failure.attempt), (FailureKind::Killed, 1));
        assert!(failure.message.contains(&format!("process {pid} ")), "{failures:?}");
    }
    // The second signal ends the grace period.
    next.signal("TERM");
    says_so(&db, next.id()).await;
    next.signal("TERM");
    assert_eq!(next.ended(LIMIT).code, 0);
    assert_eq!(db.record(id).await.attempt, 0);
}

async fn a_kill_before_the_stop_is_a_crash_of_all_jobs_and_one_after_it_of_none(db: Db) {
    let ids = db.conn().await.enqueue_all((0..3).map(|_| LONG)).await;
    let mut first = start(&db);
    for id in &ids {
        db.await_state(*id, JobState::Running).await;
    }
    first.kill();
    db.age_worker(first.id()).await;
    // It rescues them, and `linger` ends at once at its second attempt.
    let second = start(&db);
    for id in &ids {
        let job = db.await_state(*id, JobState::Completed).await;
        assert_eq!((job.attempt, job.crashes), (2, 1));
    }
    let more = db.conn().await.enqueue_all((0..3).map(|_| LONG)).await;
    for id in &more {
        db.await_state(*id, JobState::Running).await;
    }
    deploy(&db, second).await;
    let third = start(&db);
    for id in &more {
        runs_elsewhere(&db, *id, None).await;
        until("the third worker", async || (db.show(*id).await.1.len() == 1).then_some(())).await;
        let job = db.await_state(*id, JobState::Running).await;
        assert_eq!((job.attempt, job.crashes), (1, 0));
    }
    drop(third);
}

async fn a_suspended_worker_that_comes_back_to_its_stop_ends_and_changes_nothing(db: Db) {
    let id = db.enqueue(LONG).await;
    let zombie = start(&db);
    let first = runs_elsewhere(&db, id, None).await;
    let heir = start(&db);
    zombie.signal("TERM");
    says_so(&db, zombie.id()).await;
    zombie.signal("STOP");
    db.age_worker(zombie.id()).await;
    let now = runs_elsewhere(&db, id, first).await;
    zombie.signal("CONT");
    assert_eq!(zombie.ended(LIMIT).code, 0, "it has no job, so it ends long before its grace period");
    let job = db.record(id).await;
    assert_eq!((job.state, job.worker, job.attempt, job.crashes), (JobState::Running, now, 1, 0));
    drop(heir);
}

/// Another worker runs these jobs, whose first worker is no more.
async fn complete_elsewhere(db: &Db, blocked: Blocked) {
    let heir = start(db);
    blocked.complete(db).await;
    drop(heir);
}

async fn a_worker_whose_threads_are_all_blocked_says_that_it_stops(db: Db) {
    let (worker, blocked) = Blocked::start(&db, &args("1h")).await;
    deploy(&db, worker).await;
    complete_elsewhere(&db, blocked).await;
}

async fn a_worker_whose_threads_are_all_blocked_ends_at_the_third_signal(db: Db) {
    let (mut worker, blocked) = Blocked::start(&db, &args("1h")).await;
    let pid = worker.id();
    for said in ["asked to stop", "asked again", "the worker has not stopped"] {
        worker.signal("TERM");
        worker.await_line(said);
        says_so(&db, pid).await;
    }
    was_left(&db, worker.ended(LIMIT), pid, blocked).await;
}

/// An operator asks it to stop, so no signal comes. The test takes half a minute, and needs one database.
#[test]
fn a_worker_whose_threads_are_all_blocked_ends_by_itself() {
    support::run(Db::sqlite(), |db| async move {
        let (worker, blocked) = Blocked::start(&db, &args("100ms")).await;
        let (operator, pid) = (&db.database().operator, worker.id());
        let record = operator.workers().await.unwrap().pop().unwrap();
        assert!(operator.ask_worker(record.id, Asked::Stop, "ada").await.unwrap());
        was_left(&db, worker.ended(LIMIT), pid, blocked).await;
    });
}

/// The process has ended, and its jobs run in another one.
async fn was_left(db: &Db, ended: Ended, pid: u32, blocked: Blocked) {
    // It may have released the one that had not begun.
    let left = "other workers release its jobs (";
    assert!(ended.code == 1 && ended.stderr.contains(left), "{}: {}", ended.code, ended.stderr);
    db.age_worker(pid).await;
    complete_elsewhere(db, blocked).await;
}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

/// The program drops its worker, and the runtime with it, so nothing can write that the job ends.
async fn the_job_of_a_worker_that_was_dropped_is_released(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let worker = db.worker(registry![Held]).state(probe.clone()).lease(Duration::from_secs(20)).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let running = runtime.spawn(worker.run_until(std::future::pending()));
    events.expect("started").await;
    drop(running);
    runtime.shutdown_background();
    let pid = std::process::id();
    says_so(&db, pid).await;
    db.age_worker(pid).await;
    let heir = Running::start(db.worker(registry![Held]).state(probe));
    assert_eq!(events.expect("started").await.attempt, 1);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.attempt, job.crashes), (1, 0), "{failures:?}");
    events.open(1);
    heir.stop().await;
}

/// The signal comes with the end of its container, and the grace period goes on.
async fn a_signal_after_an_operators_stop_does_not_end_the_grace_period(db: Db) {
    let id = db.enqueue(LONG).await;
    let mut worker = start(&db);
    db.await_state(id, JobState::Running).await;
    let operator = &db.database().operator;
    let record = operator.workers().await.unwrap().pop().unwrap();
    assert!(operator.ask_worker(record.id, Asked::Stop, "ada").await.unwrap());
    worker.await_line("worker stops claiming and drains");
    worker.signal("TERM");
    worker.await_line("stopping already");
    worker.signal("TERM");
    worker.await_line("asked again");
    assert_eq!(worker.ended(LIMIT).code, 0);
    let job = db.record(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Available, 0));
}

support::on_each_database! {
    a_signal_after_an_operators_stop_does_not_end_the_grace_period,
    deploys_that_kill_a_long_job_consume_no_attempt,
    a_kill_before_the_stop_is_a_crash_of_all_jobs_and_one_after_it_of_none,
    a_suspended_worker_that_comes_back_to_its_stop_ends_and_changes_nothing,
    a_worker_whose_threads_are_all_blocked_says_that_it_stops,
    a_worker_whose_threads_are_all_blocked_ends_at_the_third_signal,
    the_job_of_a_worker_that_was_dropped_is_released,
}
