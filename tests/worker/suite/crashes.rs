//! Workers that die, that are suspended for too long, or that are only busy: real processes, real signals, a lease of
//! three seconds.

use std::time::{Duration, Instant};

use diesel_jobs::{FailureKind, JobState};
use support::{Db, Process};
use worker_app::{Crash, Hog, Idle, Linger};

const LEASE: Duration = Duration::from_secs(3);

fn start(db: &Db, args: &[&str]) -> Process {
    let mut worker = Process::worker(
        env!("CARGO_BIN_EXE_worker-app"),
        db.url(),
        [&["run", "--lease", "3s", "--poll", "100ms"], args].concat(),
    );
    worker.await_line("worker started");
    worker
}

async fn jobs_of_a_killed_worker_run_elsewhere_within_the_lease_and_five_seconds(db: Db) {
    let id = db.enqueue(Linger { millis: 600_000 }).await;
    let mut victim = start(&db, &[]);
    let first = db.await_state(id, JobState::Running).await;
    let heir = start(&db, &[]);
    let killed = Instant::now();
    victim.kill();
    let job = db.await_state(id, JobState::Completed).await;
    let took = killed.elapsed();
    assert!(took < LEASE + Duration::from_secs(5), "took {took:?}");
    assert_eq!((job.attempt, job.crashes), (2, 1));
    assert_ne!(job.worker, first.worker);
    let failures = db.failures(id).await;
    assert_eq!((failures.len(), failures[0].kind, failures[0].attempt), (1, FailureKind::Crash, 1));
    assert!(failures[0].message.contains(&victim.id().to_string()), "{failures:?} names the process");
    heir.signal("TERM");
    assert_eq!(heir.ended(Duration::from_secs(10)).code, 0);
}

async fn a_worker_that_slept_through_its_lease_is_refused_and_goes_on_under_a_new_id(db: Db) {
    let id = db.enqueue(Linger { millis: 2_000 }).await;
    let mut zombie = start(&db, &[]);
    let first = db.await_state(id, JobState::Running).await;
    let heir = start(&db, &[]);
    zombie.signal("STOP");
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
    heir.ended(Duration::from_secs(10));
    // It is the only worker now, and runs the next job.
    let next = db.enqueue(Linger { millis: 0 }).await;
    let next = db.await_state(next, JobState::Completed).await;
    assert_ne!(next.worker, first.worker, "under a new id");
    zombie.signal("TERM");
    assert_eq!(zombie.ended(Duration::from_secs(10)).code, 0);
}

async fn handlers_that_block_every_thread_for_several_leases_keep_them(db: Db) {
    // More handlers than the runtime has threads.
    let threads = std::thread::available_parallelism().unwrap().get();
    let ids = db.conn().await.enqueue_all((0..2 * threads).map(|_| Hog { millis: 10_000 })).await;
    let busy = start(&db, &[]);
    db.await_number(ids.len().try_into().unwrap(), "select count(*) as number from jobs.job where state = 'running'")
        .await;
    // This worker searches for dead workers all the time, and serves another queue.
    let sweeper = start(&db, &["--queues", "aside"]);
    let canary = db.enqueue(Idle {}).await;
    db.await_state(canary, JobState::Completed).await;
    for id in ids {
        let job = support::within(Duration::from_secs(60), "the hogs", async {
            loop {
                let job = db.record(id).await;
                if job.state != JobState::Running {
                    break job;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        assert_eq!((job.state, job.attempt, job.crashes), (JobState::Completed, 1, 0), "no false rescue");
    }
    drop((busy, sweeper));
}

async fn a_job_that_crashes_its_workers_is_discarded_after_max_crashes(db: Db) {
    let id = db.enqueue(Crash {}).await;
    // A worker that died is started again, as by a supervisor.
    for _ in 0..2 {
        let worker =
            Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["--lease", "1s", "--max-crashes", "2"]);
        assert_ne!(worker.ended(Duration::from_secs(30)).code, 0, "the job took it down");
    }
    let last = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["--lease", "1s", "--max-crashes", "2"]);
    let job = db.await_state(id, JobState::Discarded).await;
    assert_eq!((job.attempt, job.crashes), (2, 2));
    let failures = db.failures(id).await;
    assert!(failures.iter().all(|failure| failure.kind == FailureKind::Crash), "{failures:?}");
    assert!(failures.last().unwrap().message.contains("discarded"), "{failures:?}");
    last.signal("TERM");
    assert_eq!(last.ended(Duration::from_secs(10)).code, 0);
}

async fn jobs_beside_a_job_that_crashes_workers_run(db: Db) {
    let others = db.conn().await.enqueue_all((0..3).map(|_| Linger { millis: 300 })).await;
    let crashing = db.enqueue(Crash {}).await;
    let start = || Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["--lease", "1s", "--max-crashes", "2"]);
    // First all four run in one process. Then each runs alone, the one that crashes last.
    for _ in 0..2 {
        assert_ne!(start().ended(Duration::from_secs(30)).code, 0, "the job took it down");
    }
    let last = start();
    let job = db.await_state(crashing, JobState::Discarded).await;
    assert_eq!((job.attempt, job.crashes), (2, 2));
    for id in others {
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!((job.attempt, job.crashes), (2, 1));
    }
    last.signal("TERM");
    assert_eq!(last.ended(Duration::from_secs(10)).code, 0);
}

support::on_each_database! {
    jobs_beside_a_job_that_crashes_workers_run,
    jobs_of_a_killed_worker_run_elsewhere_within_the_lease_and_five_seconds,
    a_worker_that_slept_through_its_lease_is_refused_and_goes_on_under_a_new_id,
    handlers_that_block_every_thread_for_several_leases_keep_them,
    a_job_that_crashes_its_workers_is_discarded_after_max_crashes,
}
