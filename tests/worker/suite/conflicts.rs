//! Transactional handlers that conflict with other transactions: they run again at once, which costs no attempt. The
//! failure names the conflict.

use diesel::PgConnection;
use diesel::connection::SimpleConnection as _;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::operator::Operated;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, JobContext, JobState, State, job};
use support::{Db, Events, Probe, Running, registry};

/// Runs this SQL as its effect.
#[job(max_attempts = 1)]
async fn conflicting_async(
    conn: &mut AsyncPgConnection,
    sql: String,
    waits: bool,
    then: String,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    probe.say(ctx, "run");
    conn.batch_execute(&sql).await?;
    if waits {
        probe.pass().await;
    }
    conn.batch_execute(&then).await?;
    Ok(())
}

/// The same on a thread.
#[job(max_attempts = 1)]
fn conflicting_blocking(
    conn: &mut PgConnection,
    sql: String,
    waits: bool,
    then: String,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    probe.say(ctx, "run");
    conn.batch_execute(&sql)?;
    if waits {
        probe.pass_blocking();
    }
    conn.batch_execute(&then)?;
    Ok(())
}

pub(super) struct Kind {
    registry: Registry,
    job: fn(&str, bool, &str) -> JobBuilder,
}

pub(super) fn async_kind() -> Kind {
    Kind {
        registry: registry![ConflictingAsync],
        job: |sql, waits, then| ConflictingAsync { sql: sql.to_owned(), waits, then: then.to_owned() }.into(),
    }
}

pub(super) fn blocking_kind() -> Kind {
    Kind {
        registry: registry![ConflictingBlocking],
        job: |sql, waits, then| ConflictingBlocking { sql: sql.to_owned(), waits, then: then.to_owned() }.into(),
    }
}

fn start(db: &Db, registry: Registry) -> (Running, Events) {
    let (probe, events) = Probe::new();
    (Running::start(db.worker(registry).state(probe).slots(8)), events)
}

/// Returns SQL that raises this error at the first `times` calls. It counts with a sequence, because sequences do not
/// roll back.
fn raise_conflict(code: &str, times: u32) -> String {
    format!(
        "create sequence conflicts_raised;
         create function raise_conflict() returns trigger language plpgsql as $$ begin
             if nextval('conflicts_raised') <= {times} then raise exception 'raised by the test' using errcode = '{code}'; end if;
             return null;
         end $$;"
    )
}

const EFFECT: &str = "insert into effect (name) values ('written')";

/// Above read committed, of several transactions that change a row at the same time all but one fail.
async fn a_hot_row_under_serializable_costs_no_attempt(db: Db, kind: Kind) {
    const JOBS: usize = 3;
    let serializable =
        "do $$ begin execute format('alter database %I set default_transaction_isolation = serializable',
        current_database()); end $$; create table hot (n bigint); insert into hot values (0)";
    db.execute(serializable).await;
    for _ in 0..JOBS {
        db.enqueue((kind.job)("select n from hot", true, "update hot set n = n + 1")).await;
    }
    let (worker, mut events) = start(&db, kind.registry);
    for _ in 0..JOBS {
        events.expect("run").await;
    }
    // All have their snapshots. The first one that goes on makes the others fail.
    db.await_number(
        JOBS as i64,
        "select count(*) as number from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction' and query = 'select n from hot'",
    )
    .await;
    events.open(1);
    let completed = "select count(*) as number from jobs.finished where state = 1 and attempt = 1";
    db.await_number(1, completed).await;
    events.open(100);
    db.await_number(JOBS as i64, completed).await;
    assert_eq!(db.number("select n as number from hot").await, JOBS as i64);
    assert_eq!(worker.stop().await.completed, JOBS as u64);
    let again = events.rest().len();
    assert!(again >= JOBS - 1, "{again} runs more");
}

/// The transaction that the server ends because of the deadlock runs again when the other has ended.
pub(super) async fn a_deadlock_costs_no_attempt(db: Db, kind: Kind) {
    db.execute("create table pair (id int, n int); insert into pair values (1, 0), (2, 0)").await;
    let update = |id| format!("update pair set n = n + 1 where id = {id}");
    db.enqueue((kind.job)(&update(1), true, &update(2))).await;
    db.enqueue((kind.job)(&update(2), true, &update(1))).await;
    let (worker, mut events) = start(&db, kind.registry);
    events.expect("run").await;
    events.expect("run").await;
    // Each has updated its first row, and waits until the test continues it.
    db.await_number(
        2,
        "select count(*) as number from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction' and query like 'update pair%'",
    )
    .await;
    events.open(100);
    db.await_number(2, "select count(*) as number from jobs.finished where state = 1 and attempt = 1").await;
    assert_eq!(worker.stop().await.completed, 2);
    assert_eq!(db.number("select sum(n) as number from pair").await, 4);
    assert!(!events.rest().is_empty(), "nobody ran again: nothing was tested");
}

pub(super) async fn a_lock_that_is_not_available_costs_no_attempt(db: Db, kind: Kind) {
    let mut holder = db.conn().await;
    holder.execute("begin; lock table effect in exclusive mode").await;
    let id = db.enqueue((kind.job)("lock table effect in row exclusive mode nowait", false, EFFECT)).await;
    let (worker, mut events) = start(&db, kind.registry);
    events.expect("run").await;
    events.expect("run").await;
    holder.execute("commit").await;
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await;
    assert_eq!(db.effects("written").await, 1);
}

/// Two jobs that conflict repeatedly must not occupy their slots for ever.
async fn a_conflict_that_does_not_end_is_a_failure_that_names_it(db: Db, kind: Kind) {
    let mut holder = db.conn().await;
    holder.execute("begin; lock table effect in exclusive mode").await;
    let id = db.enqueue((kind.job)("set local lock_timeout = '2ms'", false, EFFECT)).await;
    let (worker, mut events) = start(&db, kind.registry);
    let record = db.await_state(id, JobState::Discarded).await;
    holder.execute("commit").await;
    assert_eq!((record.attempt, worker.stop().await.discarded), (1, 1));
    assert_eq!(events.rest().len(), 10);
    let failures = db.failures(id).await;
    let expected = "rolled back 10 times in a row, at last by a lock that was not available (55P03)";
    assert!(failures[0].message.contains(expected), "{failures:?}");
    assert!(failures[0].message.contains("lock timeout"), "{failures:?}");
}

/// Only before the first query of a transaction. What names the job in `pg_stat_activity` is a query.
async fn a_handler_chooses_the_isolation_of_its_transaction(db: Db, kind: Kind) {
    let store = "insert into effect (name) values (current_setting('transaction_isolation'))";
    let id = db.enqueue((kind.job)("set transaction isolation level serializable", false, store)).await;
    let (worker, _events) = start(&db, kind.registry);
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await;
    assert_eq!(db.effects("serializable").await, 1);
}

/// The server has rolled back, so the outcome is known.
pub(super) async fn a_serialization_failure_at_the_commit_is_run_again(db: Db, kind: Kind) {
    let deferred = "create constraint trigger raise_conflict after insert on effect deferrable initially deferred
        for each row execute function raise_conflict()";
    db.execute(&format!("{}{deferred}", raise_conflict("40001", 2))).await;
    let id = db.enqueue((kind.job)(EFFECT, false, "select 1")).await;
    let (worker, mut events) = start(&db, kind.registry);
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await;
    assert_eq!((db.effects("written").await, events.rest().len()), (1, 3));
    assert!(db.failures(id).await.is_empty());
}

async fn a_serialization_failure_in_our_finish_is_run_again(db: Db, kind: Kind) {
    let trigger = "create trigger raise_conflict before delete on jobs.running for each statement execute function raise_conflict()";
    let id = db.enqueue((kind.job)(EFFECT, false, "select 1")).await;
    db.execute(&format!("{}{trigger}", raise_conflict("40001", 1))).await;
    let (worker, mut events) = start(&db, kind.registry);
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await;
    assert_eq!((db.effects("written").await, events.rest().len()), (1, 2));
}

/// The conflict may have been with the transaction that took the lease.
async fn without_its_lease_a_handler_is_not_run_again(db: Db, kind: Kind) {
    let raise = "do $$ begin raise exception 'raised by the test' using errcode = '40001'; end $$";
    let id = db.enqueue((kind.job)(EFFECT, true, raise)).await;
    let (worker, mut events) = start(&db, kind.registry);
    events.expect("run").await;
    assert_eq!(db.database().operator.cancel(id).await.unwrap(), Operated::Done);
    events.open(1);
    support::until("the worker to notice", async || (worker.handle().stats().leases_lost == 1).then_some(())).await;
    assert_eq!(events.rest().len(), 0);
    worker.stop().await;
    assert_eq!(db.record(id).await.state, JobState::Cancelled);
}

/// The time of repeated runs counts for the attempt's time limit.
#[test]
fn a_timeout_ends_a_conflict() {
    #[job(max_attempts = 1, timeout = "1h")]
    async fn limited(
        conn: &mut AsyncPgConnection,
        ctx: &JobContext,
        State(probe): State<Probe>,
    ) -> Result<(), diesel::result::Error> {
        probe.say(ctx, "run");
        conn.batch_execute("lock table effect in row exclusive mode nowait").await?;
        Ok(())
    }
    support::run(Db::postgres(), async |db: Db| {
        let mut holder = db.conn().await;
        holder.execute("begin; lock table effect in exclusive mode").await;
        let id = db.enqueue(Limited {}).await;
        let (worker, mut events) = start(&db, registry![Limited]);
        events.expect("run").await;
        worker.handle().end_time_limits();
        db.await_state(id, JobState::Discarded).await;
        holder.execute("rollback").await;
        worker.stop().await;
        assert_eq!(db.failures(id).await[0].kind, diesel_jobs::handler::FailureKind::Timeout);
    });
}

on_each_connection! {
    a_handler_chooses_the_isolation_of_its_transaction,
    a_hot_row_under_serializable_costs_no_attempt,
    a_deadlock_costs_no_attempt,
    a_lock_that_is_not_available_costs_no_attempt,
    a_conflict_that_does_not_end_is_a_failure_that_names_it,
    a_serialization_failure_at_the_commit_is_run_again,
    a_serialization_failure_in_our_finish_is_run_again,
    without_its_lease_a_handler_is_not_run_again,
}
