//! Another session has locked the row of a running job. Only the finish of that job waits.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::TransactionManager as _;
use diesel::{Connection as _, PgConnection};
use diesel_jobs::handler::{CompleteIn as _, FailureKind};
use diesel_jobs::{JobContext, JobError, JobState, State, job};
use support::{Db, LIMIT, Probe, Process, Rounds, Running, registry};
use worker_app::Linger;

const OTHERS: usize = 40;

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
#[job(timeout = "1h", backoff = "fixed(1h)")]
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

/// Enqueues other jobs. They must end while the row is locked, and no statement may fail because it has waited for the
/// lock.
async fn nobody_else_waits(db: &Db, rounds: &Rounds) {
    db.conn().await.enqueue_all((0..OTHERS).map(|_| Quick {})).await;
    db.await_number(
        OTHERS.try_into().unwrap(),
        "select count(*) as number from jobs.job where kind = 'quick' and state = 'completed'",
    )
    .await;
    assert_eq!(rounds.failed("finish"), 0);
}

async fn a_locked_row_holds_up_its_own_job_and_no_other(db: Db) {
    let (probe, mut events) = Probe::new();
    let (waits, fails) = (db.enqueue(Held {}).await, db.enqueue(Held {}).await);
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Held, Quick]).state(probe).slots(4).recorder(rounds.clone());
    let worker = Running::start(worker);
    events.expect("began").await;
    events.expect("began").await;
    // One row is only locked. The other is deleted, as by a cancel, and the deletion is rolled back.
    let (mut locker, mut other) = (db.conn().await, db.conn().await);
    locker.execute(&format!("begin; select from jobs.running where id = {waits} for update")).await;
    other.execute(&format!("begin; delete from jobs.running where id = {fails}")).await;
    events.open(2);
    nobody_else_waits(&db, &rounds).await;
    // Longer than the server lets a statement wait for a lock.
    tokio::time::sleep(Duration::from_secs(10)).await;
    nobody_else_waits_again(&db, &rounds).await;
    assert_eq!(db.record(waits).await.state, JobState::Running);
    locker.execute("commit").await;
    other.execute("rollback").await;
    db.await_state(waits, JobState::Completed).await;
    db.await_state(fails, JobState::Completed).await;
    let stats = worker.stop().await;
    assert_eq!((stats.leases_lost, stats.completed), (0, 2 * OTHERS as u64 + 2));
}

async fn nobody_else_waits_again(db: &Db, rounds: &Rounds) {
    db.execute("delete from jobs.finished where kind = 'quick'").await;
    nobody_else_waits(db, rounds).await;
}

async fn a_row_that_was_deleted_behind_its_lock_is_a_lost_lease(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(db.worker(registry![Held, Quick]).state(probe).recorder(rounds.clone()));
    events.expect("began").await;
    let mut locker = db.conn().await;
    locker.execute(&format!("begin; delete from jobs.running where id = {id}")).await;
    events.open(1);
    nobody_else_waits(&db, &rounds).await;
    locker.execute("commit").await;
    support::until("the lost lease", async || (worker.handle().stats().leases_lost == 1).then_some(())).await;
    worker.stop().await;
}

async fn hangs_after_complete_in(db: Db, commits: bool) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Hangs { commits }).await;
    let worker = db.worker(registry![Hangs, Quick]).state(probe).state(Url(db.url().to_owned())).slots(4);
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(worker.recorder(rounds.clone()));
    events.expect("completed").await;
    worker.handle().end_time_limits();
    // The finish after that finds the row locked by the handler itself.
    rounds.more("finish", 3).await;
    nobody_else_waits(&db, &rounds).await;
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
async fn keep_busy(db: &Db) {
    const WAITING: usize = 200;
    let mut conn = db.conn().await;
    loop {
        if conn.number("select count(*) as number from jobs.ready").await < i64::try_from(WAITING).unwrap() {
            conn.enqueue_all((0..WAITING).map(|_| Linger { millis: 20 })).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_long_lock_on_the_workers_row_is_logged(db: Db) {
    // The heartbeat also updates this row. With this lease it does not wait for the lock during the test. The worker
    // serves one queue, so that each claim finds jobs. With a second, empty queue, claims without jobs would show that
    // the worker is not busy.
    let args = ["run", "--queues", "default", "--lease", "60s"];
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args);
    worker.await_line("worker started");
    db.await_number(1, "select count(*) as number from jobs.worker where idle").await;
    let mut locker = db.conn().await;
    locker.execute("begin").await;
    locker.execute("select from jobs.worker for update").await;
    let told = tokio::task::spawn_blocking(move || {
        worker.await_line("another session has locked the row of this worker");
        worker
    });
    let worker = tokio::select! {
        worker = told => worker.unwrap(),
        () = keep_busy(&db) => unreachable!("it does not end"),
    };
    locker.execute("commit").await;
    worker.signal("TERM");
    assert_eq!(worker.ended(LIMIT).code, 0);
}

/// However long the database refuses the last writes of a worker, its shutdown has a time limit, because a supervisor
/// waits for it. Afterwards only the worker's row says that it was stopping, and that its job is to be released.
async fn a_row_that_stays_locked_does_not_hold_up_a_shutdown_for_ever_and_its_job_is_released_later(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Held {}).await;
    let worker =
        Running::start(db.worker(registry![Held]).state(probe.clone()).grace_period(Duration::from_millis(100)));
    events.expect("began").await;
    let mut locker = db.conn().await;
    locker.execute(&format!("begin; select from jobs.running where id = {id} for update")).await;
    worker.stop().await;
    locker.execute("rollback").await;
    db.age_worker(std::process::id()).await;
    let heir = Running::start(db.worker(registry![Held]).state(probe));
    assert_eq!(events.expect("began").await.attempt, 1);
    assert_eq!(db.record(id).await.crashes, 0);
    events.open(1);
    heir.stop().await;
}

support::on_postgres! {
    a_long_lock_on_the_workers_row_is_logged,
    a_locked_row_holds_up_its_own_job_and_no_other,
    a_row_that_stays_locked_does_not_hold_up_a_shutdown_for_ever_and_its_job_is_released_later,
    a_row_that_was_deleted_behind_its_lock_is_a_lost_lease,
    a_handler_that_hangs_after_complete_in_and_commits_holds_up_nobody,
    a_handler_that_hangs_after_complete_in_and_rolls_back_holds_up_nobody,
}
