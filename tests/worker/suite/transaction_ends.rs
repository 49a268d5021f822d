//! What the database can reply at the end of a handler's transaction, when its finish and its commit are in progress.

use diesel::PgConnection;
use diesel::connection::SimpleConnection as _;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

/// Runs this SQL as its effect.
#[job(max_attempts = 2, backoff = "fixed(10ms)")]
async fn ending_async(
    conn: &mut AsyncPgConnection,
    sql: String,
    leaves_open: bool,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    use diesel_async::{AnsiTransactionManager, TransactionManager as _};
    probe.say(ctx, "run");
    if leaves_open {
        AnsiTransactionManager::begin_transaction(conn).await?;
    }
    conn.batch_execute(&sql).await
}

/// The same on a thread.
#[job(max_attempts = 2, backoff = "fixed(10ms)")]
fn ending_blocking(
    conn: &mut PgConnection,
    sql: String,
    leaves_open: bool,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    use diesel::connection::{AnsiTransactionManager, TransactionManager as _};
    probe.say(ctx, "run");
    if leaves_open {
        AnsiTransactionManager::begin_transaction(conn)?;
    }
    conn.batch_execute(&sql)
}

struct Kind {
    registry: Registry,
    job: fn(&str, bool) -> JobBuilder,
    /// How many claims consume no attempt if an administrator ends each. libpq does not pass on who has ended a
    /// session.
    most_releases: usize,
}

fn async_kind() -> Kind {
    Kind {
        registry: registry![EndingAsync],
        job: |sql, leaves_open| EndingAsync { sql: sql.to_owned(), leaves_open }.into(),
        most_releases: 25,
    }
}

fn blocking_kind() -> Kind {
    Kind {
        registry: registry![EndingBlocking],
        job: |sql, leaves_open| EndingBlocking { sql: sql.to_owned(), leaves_open }.into(),
        most_releases: 3,
    }
}

const EFFECT: &str = "insert into effect (name) values ('written')";

/// The application has deferred a constraint to the commit, so a violation is a failure of the handler.
async fn a_constraint_that_waited_for_the_commit_fails_the_attempt_with_its_text(db: Db, kind: Kind) {
    db.execute(
        "create table parent (id int primary key);
         create table child (parent int constraint child_has_a_parent references parent deferrable initially deferred)",
    )
    .await;
    let id = db.enqueue((kind.job)(&format!("{EFFECT}; insert into child values (7)"), false)).await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    assert_eq!(db.await_state(id, JobState::Discarded).await.attempt, 2);
    let stats = worker.stop().await;
    assert_eq!((stats.leases_lost, events.rest().len()), (0, 2));
    for failure in db.failures(id).await {
        assert!(
            failure
                .message
                .contains("at the end of the job's transaction, which was rolled back: the database refused"),
            "{failure:?}"
        );
        assert!(failure.message.contains("child_has_a_parent"), "{failure:?}");
    }
    assert_eq!((db.effects("written").await, db.number("select count(*) as number from child").await), (0, 0));
}

/// The server process dies between the finish and the commit, both of which were sent. The lease shows whether they
/// were committed.
async fn a_server_process_that_dies_before_the_commit_leaves_one_effect(db: Db, kind: Kind) {
    db.execute(
        "create sequence deaths;
         create function die() returns trigger language plpgsql as $$ begin
             if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;
             return null;
         end $$;
         create constraint trigger die after insert on effect deferrable initially deferred
             for each row execute function die()",
    )
    .await;
    let id = db.enqueue((kind.job)(EFFECT, false)).await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1, "no attempt was consumed");
    worker.stop().await;
    assert_eq!((db.effects("written").await, events.rest().len()), (1, 2));
    assert!(db.failures(id).await.is_empty());
}

/// As by a server that stops, or by an operator.
async fn an_interrupted_handler_costs_no_attempt(db: Db, kind: Kind) {
    db.execute("create sequence deaths").await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    let end = "perform pg_terminate_backend(pg_backend_pid())";
    for end in [end.to_owned(), format!("{end}; perform pg_sleep(60)")] {
        db.execute("alter sequence deaths restart").await;
        let once = format!("do $$ begin if nextval('deaths') = 1 then {end}; end if; end $$");
        let id = db.enqueue((kind.job)(&format!("{EFFECT}; {once}"), false)).await;
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!((job.attempt, db.failures(id).await.len()), (1, 0), "{end}");
    }
    worker.stop().await;
    assert_eq!((db.effects("written").await, events.rest().len()), (2, 4));
}

/// A handler may be the reason itself, for example because it uses up the memory of the server.
async fn a_handler_that_is_always_interrupted_comes_to_an_end(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)("select pg_terminate_backend(pg_backend_pid())", false)).await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    assert_eq!(db.await_state(id, JobState::Discarded).await.attempt, 2);
    worker.stop().await;
    let (failures, runs) = (db.failures(id).await.len(), events.rest().len());
    assert_eq!((failures, runs), (2, kind.most_releases + 2), "releases, and then two failures");
}

/// Deploys and snoozes have released the job as often as possible before.
async fn an_end_by_an_administrator_costs_no_attempt_after_many_releases(db: Db, kind: Kind) {
    db.execute("create sequence deaths").await;
    let once =
        "do $$ begin if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if; end $$";
    let id = db.enqueue((kind.job)(&format!("{EFFECT}; {once}"), false)).await;
    let before = kind.most_releases - 1;
    db.execute(&format!("update jobs.ready set lease = {before}")).await;
    let (probe, _events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    let job = db.await_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, db.failures(id).await.len()), (1, 0));
    worker.stop().await;
}

/// The session is reset without the worker's knowledge, as by a pooler.
async fn a_session_that_was_cleared_costs_no_attempt(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(&format!("{EFFECT}; deallocate all"), false)).await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await;
    assert_eq!((db.effects("written").await, events.rest().len()), (1, 2), "once, and once more");
    assert!(db.failures(id).await.is_empty());
}

/// Writes in a savepoint that the handler did not release do not count as done.
async fn a_savepoint_left_open_fails_the_attempt_and_holds_nothing(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(EFFECT, true)).await;
    let (probe, _events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    db.await_state(id, JobState::Discarded).await;
    let open = "select count(*) as number from pg_stat_activity
        where datname = current_database() and state like 'idle in transaction%'";
    db.await_number(0, open).await;
    worker.stop().await;
    for failure in db.failures(id).await {
        assert!(failure.message.contains("did not end a `conn.transaction(..)`"), "{failure:?}");
    }
    assert_eq!(db.effects("written").await, 0);
}

/// Makes one `#[test]` per function and type of connection.
macro_rules! on {
    ($($module:ident: $kind:ident),+ ; $claims:tt) => { $( on!(@ $module, $kind, $claims); )+ };
    (@ $module:ident, $kind:ident, { $($claim:ident),+ $(,)? }) => {
        mod $module {
            $(#[test] fn $claim() {
                support::run(support::Db::postgres(), |db| super::$claim(db, super::$kind()));
            })+
        }
    };
}

on!(on_async_pg_connection: async_kind, on_pg_connection: blocking_kind; {
    a_constraint_that_waited_for_the_commit_fails_the_attempt_with_its_text,
    a_server_process_that_dies_before_the_commit_leaves_one_effect,
    an_interrupted_handler_costs_no_attempt,
    a_handler_that_is_always_interrupted_comes_to_an_end,
    an_end_by_an_administrator_costs_no_attempt_after_many_releases,
    a_session_that_was_cleared_costs_no_attempt,
    a_savepoint_left_open_fails_the_attempt_and_holds_nothing,
});
