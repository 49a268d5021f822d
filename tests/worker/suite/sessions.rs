//! What the database, the role or an administrator can do to the sessions of a worker.

use std::time::Duration;

use diesel::PgConnection;
use diesel::connection::SimpleConnection as _;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::worker::{Registry, WorkerId};
use diesel_jobs::{Enqueue as _, JobBuilder, JobContext, JobState, State, job};
use diesel_jobs_core::storage::{Claim, Wanted, WorkerInfo};
use support::{Db, Probe, Running, registry};

#[job(max_attempts = 1)]
async fn session_async(
    conn: &mut AsyncPgConnection,
    waits: bool,
    then: String,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    conn.batch_execute("insert into effect (name) values ('one')").await?;
    conn.batch_execute(&then).await?;
    probe.say(ctx, "written");
    if waits {
        probe.pass().await;
    }
    conn.batch_execute("insert into effect (name) values ('two')").await?;
    Ok(())
}

#[job(max_attempts = 1)]
fn session_blocking(
    conn: &mut PgConnection,
    waits: bool,
    then: String,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    conn.batch_execute("insert into effect (name) values ('one')")?;
    conn.batch_execute(&then)?;
    probe.say(ctx, "written");
    if waits {
        probe.pass_blocking();
    }
    conn.batch_execute("insert into effect (name) values ('two')")?;
    Ok(())
}

struct Kind {
    registry: Registry,
    /// Whether its handler waits for the test, and what it executes after its first write.
    job: fn(bool, &str) -> JobBuilder,
    /// The known message of a session that the server ended while no statement ran. libpq does not return the server's
    /// message.
    last_word: &'static str,
    /// How often it runs until it counts as failed. A blocking handler seems to be interrupted.
    runs: usize,
}

fn async_kind() -> Kind {
    Kind {
        registry: registry![SessionAsync],
        job: |waits, then| SessionAsync { waits, then: then.to_owned() }.into(),
        last_word: "terminating connection due to idle-in-transaction timeout",
        runs: 1,
    }
}

fn blocking_kind() -> Kind {
    Kind {
        registry: registry![SessionBlocking],
        job: |waits, then| SessionBlocking { waits, then: then.to_owned() }.into(),
        last_word: "the server ended the connection, and its log says why",
        runs: 4,
    }
}

async fn set(db: &Db, setting: &str) {
    let sql = format!("do $$ begin execute format($q$alter database %I set {setting}$q$, current_database()); end $$");
    db.execute(&sql).await;
}

/// Among serializable transactions, reads conflict with writes. A worker's transactions are never serializable,
/// whatever the default is.
async fn a_users_serializable_enqueue_does_not_fail_because_of_a_worker(db: Db) {
    set(&db, "default_transaction_isolation = serializable").await;
    let storage = db.again().await.storage;
    let worker = WorkerId::generate();
    let lease = Duration::from_secs(60);
    storage.register(&WorkerInfo::new(worker, lease)).await.unwrap();
    let mut conn = AsyncPgConnection::establish(db.url()).await.unwrap();
    conn.batch_execute("begin").await.unwrap();
    // The enqueue reads whether a worker is idle, and writes what claims read.
    SessionAsync { waits: false, then: String::new() }.enqueue(&mut conn).await.unwrap();
    storage.set_idle(worker, true).await.unwrap();
    let claim = Claim {
        bypass_limit: true,
        ..Claim::new(worker, vec![Wanted::new("default", 5)], vec!["session_async".to_owned()])
    };
    assert!(storage.claim(&claim).await.unwrap().is_empty());
    conn.batch_execute("commit").await.expect("nothing that a worker did is in the way");
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 1);
}

async fn the_servers_last_message_is_in_the_stored_error(db: Db, kind: Kind) {
    // The limit holds from the first write on, so that no earlier pause ends the session.
    let id = db.enqueue((kind.job)(true, "set idle_in_transaction_session_timeout = 1")).await;
    let (probe, mut events) = Probe::new();
    let Kind { last_word, runs, .. } = kind;
    let worker = Running::start(db.worker(kind.registry).state(probe));
    let alive = format!(
        "select count(*) as number from pg_stat_activity where application_name = 'jobs worker: job {id}' and datname = current_database()"
    );
    for _ in 0..runs {
        events.expect("written").await;
        db.await_number(0, &alive).await;
        events.open(1);
    }
    db.await_state(id, JobState::Discarded).await;
    worker.stop().await;
    let failures = db.failures(id).await;
    assert!(failures[0].message.contains(last_word), "{failures:?}");
    assert_eq!(db.effects("one").await, 0);
}

/// A read-only default is meant for people. A job that could not be finished could not run.
async fn limits_and_defaults_of_the_database_do_not_keep_a_job_from_ending(db: Db, kind: Kind) {
    for setting in
        ["lock_timeout = 1", "default_transaction_isolation = 'repeatable read'", "default_transaction_read_only = on"]
    {
        set(&db, setting).await;
    }
    // As an application on such a database must.
    let mut conn = AsyncPgConnection::establish(db.url()).await.unwrap();
    conn.batch_execute("set default_transaction_read_only = off").await.unwrap();
    let id = (kind.job)(false, "select 1").enqueue(&mut conn).await.unwrap().id();
    let (probe, _events) = Probe::new();
    let storage = db.again().await.storage;
    let worker = diesel_jobs::Worker::builder(storage).registry(kind.registry).poll_interval(Duration::from_millis(50));
    let worker = Running::start(worker.state(probe));
    assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await;
    assert_eq!(db.effects("two").await, 1);
}

async fn activity_tells_which_job_holds_a_lock(db: Db, kind: Kind) {
    let id = db.enqueue((kind.job)(true, "select 1")).await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    events.expect("written").await;
    let named = format!(
        "select count(distinct pid) as number from pg_stat_activity a join pg_locks l using (pid)
         where a.application_name = 'jobs worker: job {id}' and l.relation = 'effect'::regclass and a.datname = current_database()"
    );
    assert_eq!(db.number(&named).await, 1);
    events.open(1);
    db.await_state(id, JobState::Completed).await;
    let still = "select count(*) as number from pg_stat_activity where application_name like '%: job %' and datname = current_database()";
    db.await_number(0, still).await;
    worker.stop().await;
}

/// A restart of the server, or an administrator, has closed the idle connections of the pool.
async fn closed_connections_of_the_pool_cost_no_attempt(db: Db, kind: Kind) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    let first: Vec<_> = futures(&db, kind.job, 4).await;
    for _ in &first {
        events.expect("written").await;
    }
    events.open(4);
    for id in first {
        db.await_state(id, JobState::Completed).await;
    }
    db.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
        .await;
    let id = db.enqueue((kind.job)(false, "select 1")).await;
    // The test's own pool lost its connections, too.
    db.await_number(
        1,
        &format!("select count(*) as number from jobs.finished where id = {id} and state = 1 and attempt = 1"),
    )
    .await;
    assert_eq!(worker.stop().await.released, 0);
}

async fn futures(db: &Db, job: fn(bool, &str) -> JobBuilder, jobs: usize) -> Vec<diesel_jobs::JobId> {
    let mut ids = Vec::new();
    for _ in 0..jobs {
        ids.push(db.enqueue(job(true, "select 1")).await);
    }
    ids
}

support::on_postgres! { a_users_serializable_enqueue_does_not_fail_because_of_a_worker }

on_each_connection! {
    the_servers_last_message_is_in_the_stored_error,
    limits_and_defaults_of_the_database_do_not_keep_a_job_from_ending,
    activity_tells_which_job_holds_a_lock,
    closed_connections_of_the_pool_cost_no_attempt,
}
