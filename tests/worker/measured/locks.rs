//! The limits beside rows that other sessions have locked: other jobs end at once, and so does a worker that stops.

use std::time::{Duration, Instant};

use diesel_jobs::{JobContext, JobState, State, job};
use support::{Conn, Db, LIMIT, Probe, Process, Running, registry};
use worker_app::Linger;

use crate::table::{alone_on, print, row};

const OTHERS: usize = 40;
/// The time limit for the other jobs. A statement that waits for the lock ends after nine seconds.
const AT_ONCE: Duration = Duration::from_secs(4);
const SHUTDOWN: Duration = Duration::from_secs(8);

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    probe.pass().await;
}

#[job]
async fn quick() {}

async fn a_locked_row_holds_up_no_other_job_and_a_shutdown_for_seconds_only(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let worker = db.worker(registry![Held, Quick]).state(probe).slots(4).grace_period(Duration::from_millis(100));
    let worker = Running::start(worker);
    events.expect("began").await;
    let mut locker = db.conn().await;
    locker.execute(&format!("begin; select from jobs.running where id = {id} for update")).await;
    events.open(1);
    let begun = Instant::now();
    for id in db.conn().await.enqueue_all((0..OTHERS).map(|_| Quick {})).await {
        db.await_state(id, JobState::Completed).await;
    }
    let others = begun.elapsed();
    let asked = Instant::now();
    worker.stop().await;
    let stopped = asked.elapsed();
    locker.execute("rollback").await;
    let ms = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1e3);
    print("beside a locked row, ms", &[row!["40 other jobs", "shutdown"], row![ms(others), ms(stopped)]]);
    assert!(others < AT_ONCE && stopped < SHUTDOWN, "{others:?}, {stopped:?}");
}

/// Keeps a worker so busy that it wants to clear the idle flag in its row: jobs wait for it all the time.
async fn busy_for(conn: &mut Conn, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if conn.number("select count(*) as number from jobs.ready").await < 200 {
            conn.enqueue_all((0..200).map(|_| Linger { millis: 20 })).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_short_lock_on_the_workers_row_is_not_logged(db: Db) {
    let args = ["run", "--queues", "default", "--lease", "60s"];
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args);
    worker.await_line("worker started");
    db.await_number(1, "select count(*) as number from jobs.worker where idle").await;
    let mut locker = db.conn().await;
    locker.execute("begin").await;
    locker.execute("select from jobs.worker for update").await;
    busy_for(&mut db.conn().await, Duration::from_secs(1)).await;
    locker.execute("commit").await;
    worker.signal("TERM");
    let ended = worker.ended(LIMIT);
    assert_eq!(ended.code, 0);
    assert!(!ended.stderr.contains("another session has locked the row of this worker"), "{}", ended.stderr);
}

alone_on! { on_postgres by postgres {
    a_locked_row_holds_up_no_other_job_and_a_shutdown_for_seconds_only,
    a_short_lock_on_the_workers_row_is_not_logged,
} }
