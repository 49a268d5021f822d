//! Workers that die, that are suspended for too long, or that are only busy: real processes and real signals. The tests
//! do not wait for the ends of leases, they move the times of heartbeats.

use diesel_jobs::handler::FailureKind;
use diesel_jobs::{JobBuilder, JobState};
use support::{Db, LIMIT, Process, until};
use worker_app::{Crash, Idle, Linger};

use crate::blocked_threads::{Blocked, with_one_thread};

const LEASE: [&str; 2] = ["--lease", "10s"];

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--poll-interval", "100ms"][..], &LEASE, more].concat()
}

fn start(db: &Db, more: &[&str]) -> Process {
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args(more));
    worker.await_line("worker started");
    worker
}

async fn jobs_of_a_killed_worker_run_elsewhere(db: Db) {
    let id = db.enqueue(Linger { millis: 600_000 }).await;
    let mut victim = start(&db, &[]);
    let first = db.await_state(id, JobState::Running).await;
    let heir = start(&db, &[]);
    victim.kill();
    db.age_worker(victim.id()).await;
    let job = db.await_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, job.crashes), (2, 1));
    assert_ne!(job.worker, first.worker);
    let failures = db.failures(id).await;
    assert_eq!((failures.len(), failures[0].kind, failures[0].attempt), (1, FailureKind::Crash, 1));
    assert!(failures[0].message.contains(&victim.id().to_string()), "{failures:?} names the process");
    heir.signal("TERM");
    assert_eq!(heir.ended(LIMIT).code, 0);
}

async fn a_worker_that_slept_through_its_lease_is_refused_and_goes_on_under_a_new_id(db: Db) {
    let id = db.enqueue(Linger { millis: 600_000 }).await;
    let mut zombie = start(&db, &[]);
    let first = db.await_state(id, JobState::Running).await;
    let heir = start(&db, &[]);
    zombie.signal("STOP");
    db.age_worker(zombie.id()).await;
    let job = db.await_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, job.crashes), (2, 1));
    assert_ne!(job.worker, first.worker);
    zombie.signal("CONT");
    zombie.await_line("lost its lease");
    let after = db.record(id).await;
    assert_eq!(
        (after.state, after.attempt, after.worker, after.finished_at),
        (JobState::Completed, 2, job.worker, job.finished_at),
        "the zombie changed nothing"
    );
    heir.signal("TERM");
    heir.ended(LIMIT);
    // It is the only worker now, and runs the next job.
    let next = db.enqueue(Linger { millis: 0 }).await;
    let next = db.await_state(next, JobState::Completed).await;
    assert_ne!(next.worker, first.worker, "under a new id");
    zombie.signal("TERM");
    assert_eq!(zombie.ended(LIMIT).code, 0);
}

/// A listener that does not read fills the buffers of its connection. Its server process then waits for it, and the
/// server keeps all notifications that were sent since.
async fn notifications_are_read_while_handlers_block_every_thread(db: Db) {
    const LISTENER: &str = "from pg_stat_activity where datname = current_database() and query = 'listen jobs'";
    let (busy, blocked) = Blocked::start(&db, &args(&[])).await;
    let mut conn = db.conn().await;
    for round in 0..20 {
        let flood =
            format!("select pg_notify('jobs', lpad(n::text, 7900, '{}')) from generate_series(1, 250) n", round % 10);
        conn.execute(&flood).await;
        let waits_for_us = format!("select count(*) as number {LISTENER} and wait_event = 'ClientRead'");
        db.await_number(1, &waits_for_us).await;
    }
    blocked.complete(&db).await;
    drop(busy);
}

async fn handlers_that_block_every_thread_for_several_leases_keep_them(db: Db) {
    let (busy, blocked) = Blocked::start(&db, &args(&[])).await;
    // This worker searches for dead workers all the time, and serves another queue.
    let sweeper = start(&db, &["--queues", "aside"]);
    let canary = db.enqueue(Idle {}).await;
    db.await_state(canary, JobState::Completed).await;
    // There are four heartbeats in a lease.
    let beat = if db.is_postgres() { "(extract(epoch from heartbeat_at) * 1000000)::bigint" } else { "heartbeat_at" };
    let beat = format!("select {beat} as number from jobs.worker where pid = {}", busy.id());
    for _ in 0..9 {
        let before = db.number(&beat).await;
        until("a heartbeat", async || (db.number(&beat).await != before).then_some(())).await;
    }
    // No false rescue.
    blocked.complete(&db).await;
    drop((busy, sweeper));
}

/// Both jobs have a slot. One of them blocks the only thread, so the task of the other one cannot begin.
async fn a_job_that_cannot_begin_because_the_thread_is_blocked_runs_elsewhere(db: Db) {
    let (busy, blocked) = Blocked::start(&db, &args(&[])).await;
    let heir = start(&db, &[]);
    until("both handlers to run", async || {
        let (one, other) = (db.record(blocked.jobs[0]).await, db.record(blocked.jobs[1]).await);
        let run = one.state == JobState::Running && other.state == JobState::Running;
        (run && one.worker != other.worker).then_some(())
    })
    .await;
    blocked.complete(&db).await;
    for worker in [busy, heir] {
        worker.signal("TERM");
        assert_eq!(worker.ended(LIMIT).code, 0);
    }
}

async fn prefetched_jobs_of_a_worker_whose_thread_is_blocked_run_elsewhere(db: Db) {
    const FIRST: i64 = 100;
    const BEHIND: i64 = 10;
    let short = |jobs: i64| (0..jobs).map(|_| JobBuilder::from(Linger { millis: 0 })).collect::<Vec<_>>();
    let completed = "select count(*) as number from jobs.job where state = 'completed' and attempt = 1 and crashes = 0";
    let busy = with_one_thread(db.url(), &args(&["--slots", "1"]));
    // They are short, so the worker claims more than its slot takes.
    db.conn().await.enqueue_all(short(FIRST)).await;
    db.await_number(FIRST, completed).await;
    let blocked = Blocked::enqueue(&mut db.conn().await, 1, short(BEHIND)).await;
    blocked.begun().await;
    let heir = start(&db, &[]);
    db.await_number(FIRST + BEHIND, completed).await;
    assert_eq!(db.record(blocked.jobs[0]).await.state, JobState::Running, "it has kept its lease");
    blocked.complete(&db).await;
    for worker in [busy, heir] {
        worker.signal("TERM");
        assert_eq!(worker.ended(LIMIT).code, 0);
    }
}

/// Starts a worker whose job crashes it, and waits for its end.
async fn crashes(db: &Db) {
    let worker = start_for_crashes(db);
    let pid = worker.id();
    assert_ne!(worker.ended(LIMIT).code, 0, "the job took it down");
    db.age_worker(pid).await;
}

fn start_for_crashes(db: &Db) -> Process {
    let args = [&LEASE[..], &["--max-crashes", "2"]].concat();
    Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args)
}

async fn a_job_that_crashes_its_workers_is_discarded_after_max_crashes(db: Db) {
    let id = db.enqueue(Crash {}).await;
    // A worker that died is started again, as by a supervisor.
    for _ in 0..2 {
        crashes(&db).await;
    }
    let last = start_for_crashes(&db);
    let job = db.await_state(id, JobState::Discarded).await;
    assert_eq!((job.attempt, job.crashes), (2, 2));
    let failures = db.failures(id).await;
    assert!(failures.iter().all(|failure| failure.kind == FailureKind::Crash), "{failures:?}");
    assert!(failures.last().unwrap().message.contains("discarded"), "{failures:?}");
    last.signal("TERM");
    assert_eq!(last.ended(LIMIT).code, 0);
}

async fn jobs_beside_a_job_that_crashes_workers_run(db: Db) {
    let others = db.conn().await.enqueue_all((0..3).map(|_| Linger { millis: 600_000 })).await;
    let crashing = db.enqueue(Crash {}).await;
    // First all four run in one process. Then each runs alone, the one that crashes last.
    for _ in 0..2 {
        crashes(&db).await;
    }
    let last = start_for_crashes(&db);
    let job = db.await_state(crashing, JobState::Discarded).await;
    assert_eq!((job.attempt, job.crashes), (2, 2));
    for id in others {
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!((job.attempt, job.crashes), (2, 1));
    }
    last.signal("TERM");
    assert_eq!(last.ended(LIMIT).code, 0);
}

support::on_postgres! {
    a_job_that_crashes_its_workers_is_discarded_after_max_crashes,
    a_worker_that_slept_through_its_lease_is_refused_and_goes_on_under_a_new_id,
    handlers_that_block_every_thread_for_several_leases_keep_them,
    a_job_that_cannot_begin_because_the_thread_is_blocked_runs_elsewhere,
    prefetched_jobs_of_a_worker_whose_thread_is_blocked_run_elsewhere,
    jobs_beside_a_job_that_crashes_workers_run,
    jobs_of_a_killed_worker_run_elsewhere,
    notifications_are_read_while_handlers_block_every_thread,
}
support::on_sqlite! {
    a_job_that_crashes_its_workers_is_discarded_after_max_crashes,
    a_worker_that_slept_through_its_lease_is_refused_and_goes_on_under_a_new_id,
    handlers_that_block_every_thread_for_several_leases_keep_them,
    a_job_that_cannot_begin_because_the_thread_is_blocked_runs_elsewhere,
    prefetched_jobs_of_a_worker_whose_thread_is_blocked_run_elsewhere,
    jobs_beside_a_job_that_crashes_workers_run,
    jobs_of_a_killed_worker_run_elsewhere,
}
