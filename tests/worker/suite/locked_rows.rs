//! Another session has locked the row of a running job. Only the finish of that job waits.

use std::time::{Duration, Instant};

use diesel::connection::TransactionManager as _;
use diesel::{Connection as _, PgConnection};
use diesel_jobs::{CompleteIn as _, FailureKind, JobContext, JobError, JobState, State, job};
use support::{Db, Probe, Process, Running, registry};
use worker_app::Linger;

const OTHERS: usize = 40;
/// The time limit for the other jobs. A statement that waits for the lock ends after nine seconds.
const AT_ONCE: Duration = Duration::from_secs(4);

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    probe.pass().await;
}

#[job]
async fn quick() {}

/// The database's URL, for the handler.
#[derive(Clone)]
struct Url(String);

type Manager = <PgConnection as diesel::Connection>::TransactionManager;

/// Completes its job in a transaction of its own. Then it neither commits nor ends until the test continues it.
#[job(timeout = "300ms", backoff = "fixed(1h)")]
fn hangs(commits: bool, ctx: &JobContext, State(probe): State<Probe>, State(url): State<Url>) -> Result<(), JobError> {
    let mut conn = PgConnection::establish(&url.0).map_err(JobError::new)?;
    Manager::begin_transaction(&mut conn).map_err(JobError::new)?;
    ctx.complete_in(&mut conn).map_err(JobError::new)?;
    probe.say(ctx, "completed");
    probe.pass_blocking();
    if commits {
        Manager::commit_transaction(&mut conn).map_err(JobError::new)?;
    }
    Ok(())
}

/// Enqueues other jobs. They must end as if nothing were locked.
async fn nobody_else_waits(db: &Db) {
    let begun = Instant::now();
    db.conn().await.enqueue_all((0..OTHERS).map(|_| Quick {})).await;
    db.await_number(
        OTHERS.try_into().unwrap(),
        "select count(*) as number from jobs.job where kind = 'quick' and state = 'completed'",
    )
    .await;
    assert!(begun.elapsed() < AT_ONCE, "took {:?}", begun.elapsed());
}

async fn a_locked_row_holds_up_its_own_job_and_no_other(db: Db) {
    let (probe, mut events) = Probe::new();
    let (waits, fails) = (db.enqueue(Held {}).await, db.enqueue(Held {}).await);
    let worker = Running::start(db.worker(registry![Held, Quick]).state(probe).concurrency(4));
    events.expect("began").await;
    events.expect("began").await;
    // One row is only locked. The other is deleted, as by a cancel, and the deletion is rolled back.
    let (mut locker, mut other) = (db.conn().await, db.conn().await);
    locker.execute(&format!("begin; select from jobs.running where id = {waits} for update")).await;
    other.execute(&format!("begin; delete from jobs.running where id = {fails}")).await;
    events.open(2);
    nobody_else_waits(&db).await;
    // Longer than the server lets a statement wait for a lock.
    tokio::time::sleep(Duration::from_secs(10)).await;
    nobody_else_waits_again(&db).await;
    assert_eq!(db.record(waits).await.state, JobState::Running);
    locker.execute("commit").await;
    other.execute("rollback").await;
    db.await_state(waits, JobState::Completed).await;
    db.await_state(fails, JobState::Completed).await;
    let stats = worker.stop().await;
    assert_eq!((stats.leases_lost, stats.completed), (0, 2 * OTHERS as u64 + 2));
}

async fn nobody_else_waits_again(db: &Db) {
    db.execute("delete from jobs.finished where kind = 'quick'").await;
    nobody_else_waits(db).await;
}

async fn a_row_that_was_deleted_behind_its_lock_is_a_lost_lease(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let worker = Running::start(db.worker(registry![Held, Quick]).state(probe));
    events.expect("began").await;
    let mut locker = db.conn().await;
    locker.execute(&format!("begin; delete from jobs.running where id = {id}")).await;
    events.open(1);
    nobody_else_waits(&db).await;
    locker.execute("commit").await;
    support::until("the lost lease", async || (worker.handle().stats().leases_lost == 1).then_some(())).await;
    worker.stop().await;
}

async fn hangs_after_complete_in(db: Db, commits: bool) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Hangs { commits }).await;
    let worker = db.worker(registry![Hangs, Quick]).state(probe).state(Url(db.url().to_owned())).concurrency(4);
    let worker = Running::start(worker);
    events.expect("completed").await;
    // Meanwhile its time limit passes. The finish after that finds the row locked by the handler itself.
    tokio::time::sleep(Duration::from_secs(2)).await;
    nobody_else_waits(&db).await;
    events.open(1);
    if commits {
        db.await_state(id, JobState::Completed).await;
    } else {
        // The job is retried after its backoff.
        db.await_number(1, &format!("select count(*) as number from jobs.job_error where job_id = {id}")).await;
        assert_eq!(db.failures(id).await[0].kind, FailureKind::Timeout);
    }
    assert_eq!(worker.stop().await.leases_lost, 0);
}

async fn a_handler_that_hangs_after_complete_in_and_commits_holds_up_nobody(db: Db) {
    hangs_after_complete_in(db, true).await;
}

async fn a_handler_that_hangs_after_complete_in_and_rolls_back_holds_up_nobody(db: Db) {
    hangs_after_complete_in(db, false).await;
}

/// Keeps a worker so busy that it wants to clear the idle flag in its row: jobs wait for it all the time.
async fn busy_for(db: &Db, time: Duration) {
    const WAITING: usize = 200;
    let (mut conn, begun) = (db.conn().await, Instant::now());
    while begun.elapsed() < time {
        if conn.number("select count(*) as number from jobs.ready").await < i64::try_from(WAITING).unwrap() {
            conn.enqueue_all((0..WAITING).map(|_| Linger { millis: 20 })).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_long_lock_on_the_workers_row_is_logged(db: Db) {
    const TOLD: &str = "another session has locked the row of this worker";
    // The heartbeat also updates this row. With this lease it does not wait for the lock during the test. The worker serves
    // one queue, so that each claim finds jobs. With a second, empty queue, claims without jobs would show that the worker is
    // not busy.
    let args = ["run", "--queues", "default", "--lease", "60s"];
    let start = || Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args);
    for (locked, is_told) in [(Duration::from_secs(1), false), (Duration::from_secs(15), true)] {
        let mut worker = start();
        worker.await_line("worker started");
        db.await_number(1, "select count(*) as number from jobs.worker where idle").await;
        let mut locker = db.conn().await;
        locker.execute("begin").await;
        locker.execute("select from jobs.worker for update").await;
        busy_for(&db, locked).await;
        locker.execute("commit").await;
        worker.signal("TERM");
        let ended = worker.ended(Duration::from_secs(20));
        assert_eq!(ended.code, 0);
        assert_eq!(ended.stderr.contains(TOLD), is_told, "locked for {locked:?}:\n{}", ended.stderr);
    }
}

/// However long the database refuses the last writes of a worker, its shutdown has a time limit, because a supervisor
/// waits for it.
async fn a_row_that_stays_locked_holds_up_a_shutdown_for_seconds_only(db: Db) {
    const BOUND: Duration = Duration::from_secs(8);
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe).grace(Duration::from_millis(100)));
    events.expect("began").await;
    let mut locker = db.conn().await;
    locker.execute(&format!("begin; select from jobs.running where id = {id} for update")).await;
    let asked = Instant::now();
    worker.stop().await;
    assert!(asked.elapsed() < BOUND, "took {:?}", asked.elapsed());
    locker.execute("rollback").await;
}

support::on_postgres! {
    a_long_lock_on_the_workers_row_is_logged,
    a_locked_row_holds_up_its_own_job_and_no_other,
    a_row_that_stays_locked_holds_up_a_shutdown_for_seconds_only,
    a_row_that_was_deleted_behind_its_lock_is_a_lost_lease,
    a_handler_that_hangs_after_complete_in_and_commits_holds_up_nobody,
    a_handler_that_hangs_after_complete_in_and_rolls_back_holds_up_nobody,
}
