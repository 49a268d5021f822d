//! The connection through which the worker loads rows, on PostgreSQL: when it goes back to its pool, and what happens
//! if it fails.

use std::time::Duration;

use diesel::{Identifiable, Queryable, Selectable};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::handler::FailureKind;
use diesel_jobs::rows::Ref;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Database, JobBuilder, JobContext, JobState, State, Worker, WorkerBuilder, job};
use support::{Db, Probe, Running, registry, until};

diesel::table! {
    parcel (id) { id -> BigInt, name -> Text, }
}

const TABLE: &str =
    "create table parcel (id bigint primary key, name text not null); insert into parcel values (7, 'P')";

const LOCK: &str = "begin; lock table parcel in access exclusive mode";

/// The sessions that wait for the lock.
const WAITING: &str = "select count(*) as number from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'";

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(table_name = parcel)]
struct Parcel {
    id: i64,
    name: String,
}

#[job]
async fn sends(parcel: Ref<Parcel>, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("sends {}{}", parcel.name, parcel.id));
    probe.pass().await;
}

#[job]
fn sends_on_a_thread(parcel: Ref<Parcel>, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("sends {} on a thread", parcel.name));
    probe.pass_blocking();
}

#[job(timeout = "1h", max_attempts = 1)]
async fn sends_in_time(_parcel: Ref<Parcel>) {}

#[job(timeout = "1h", max_attempts = 1)]
fn sends_in_time_on_a_thread(_parcel: Ref<Parcel>) {}

#[job(max_attempts = 1)]
async fn sends_in_the_end(_parcel: Ref<Parcel>) {}

#[job]
async fn takes_the_connection(_conn: &mut AsyncPgConnection, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "has the connection");
}

/// Sessions that end because of the rows themselves end the attempts of their job, too, if not at once.
async fn rows_that_end_every_session_do_not_run_their_job_for_ever(db: Db) {
    db.execute("create view parcel as select 7::bigint as id, pg_terminate_backend(pg_backend_pid())::text || pg_sleep(600)::text as name")
        .await;
    let worker = Running::start(with_one_connection(&db, registry![SendsInTheEnd]).await);
    let id = db.enqueue(SendsInTheEnd::new(7)).await;
    db.await_state(id, JobState::Discarded).await;
    let (job, failures) = db.show(id).await;
    assert_eq!((job.attempt, failures.len()), (1, 1));
    assert!(failures[0].message.contains("terminating connection"), "{failures:?}");
    assert!(worker.handle().is_healthy());
    worker.stop().await;
}

/// A worker whose handlers have one connection.
async fn with_one_connection(db: &Db, registry: Registry) -> WorkerBuilder {
    let database = Database::open(db.url(), 1).await.unwrap();
    Worker::builder(database.storage).registry(registry).poll_interval(Duration::from_millis(50)).slots(4)
}

async fn the_connection_is_back_in_its_pool_while_the_handler_runs(db: Db) {
    let (probe, mut events) = Probe::new();
    db.execute(TABLE).await;
    let registry = registry![Sends, SendsOnAThread, TakesTheConnection];
    let worker = Running::start(with_one_connection(&db, registry).await.state(probe));
    db.enqueue(Sends::new(7)).await;
    events.expect("sends P7").await;
    db.enqueue(SendsOnAThread::new(7)).await;
    events.expect("sends P on a thread").await;
    db.enqueue(Sends::new(7)).await;
    events.expect("sends P7").await;
    let last = db.enqueue(TakesTheConnection {}).await;
    events.expect("has the connection").await;
    db.await_state(last, JobState::Completed).await;
    events.open(3);
    assert_eq!(worker.stop().await.completed, 4);
}

async fn a_row_that_cannot_be_read_in_time_ends_the_attempt(db: Db) {
    db.execute(TABLE).await;
    ends_at_its_timeout(&db, SendsInTime::new(7)).await;
    ends_at_its_timeout(&db, SendsInTimeOnAThread::new(7)).await;
}

/// The worker can use its only connection for the next job.
async fn ends_at_its_timeout(db: &Db, job: impl Into<JobBuilder>) {
    let (probe, mut events) = Probe::new();
    let mut locker = db.conn().await;
    locker.execute(LOCK).await;
    let registry = registry![SendsInTime, SendsInTimeOnAThread, Sends];
    let worker = Running::start(with_one_connection(db, registry).await.state(probe));
    let id = db.enqueue(job.into()).await;
    db.await_number(1, WAITING).await;
    worker.handle().end_time_limits();
    db.await_state(id, JobState::Discarded).await;
    let failure = db.failures(id).await.remove(0);
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure:?}");
    db.await_number(0, WAITING).await;
    locker.execute("commit").await;
    db.enqueue(Sends::new(7)).await;
    events.expect("sends P7").await;
    events.open(1);
    worker.stop().await;
}

async fn a_worker_that_stops_releases_a_job_whose_row_cannot_be_read(db: Db) {
    let (probe, mut events) = Probe::new();
    db.execute(TABLE).await;
    let mut locker = db.conn().await;
    locker.execute(LOCK).await;
    let id = db.enqueue(Sends::new(7)).await;
    let worker = db.worker(registry![Sends]).state(probe).grace_period(Duration::from_millis(200));
    let worker = Running::start(worker);
    db.await_number(1, WAITING).await;
    worker.stop().await;
    let released = db.record(id).await;
    assert_eq!((released.state, released.attempt), (JobState::Available, 0));
    db.await_number(0, WAITING).await;
    assert!(events.rest().is_empty());
}

async fn an_attempt_that_lost_its_lease_reads_no_row(db: Db) {
    let (probe, mut events) = Probe::new();
    db.execute(TABLE).await;
    let mut locker = db.conn().await;
    locker.execute(LOCK).await;
    let id = db.enqueue(Sends::new(7)).await;
    let worker = Running::start(db.worker(registry![Sends]).state(probe).lease(Duration::from_secs(10)));
    db.await_number(1, WAITING).await;
    db.execute(&format!("delete from jobs.running where id = {id}")).await;
    db.await_number(0, WAITING).await;
    locker.execute("commit").await;
    let stats = worker.stop().await;
    assert_eq!((stats.leases_lost, stats.completed), (1, 0));
    assert!(events.rest().is_empty());
}

const OTHERS: &str = "select count(pg_terminate_backend(pid)) as number from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()";

async fn a_closed_connection_costs_no_attempt(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.execute(TABLE).await;
    let worker = Running::start(with_one_connection(&db, registry![Sends]).await.state(probe));
    events.open(4);
    for _ in 0..4 {
        let id = conn.enqueue(Sends::new(7)).await;
        events.expect("sends P7").await;
        db.await_state(id, JobState::Completed).await;
        assert_eq!((db.record(id).await.attempt, db.failures(id).await.len()), (1, 0));
        // The next job gets a connection that the server has closed.
        assert!(conn.number(OTHERS).await > 0);
    }
    worker.stop().await;
}

async fn a_server_that_ends_the_statement_costs_no_attempt(db: Db) {
    let (probe, mut events) = Probe::new();
    let (mut conn, mut locker) = (db.conn().await, db.conn().await);
    conn.execute(TABLE).await;
    locker.execute(LOCK).await;
    let worker = Running::start(with_one_connection(&db, registry![Sends]).await.state(probe));
    events.open(1);
    let id = conn.enqueue(Sends::new(7)).await;
    db.await_number(1, WAITING).await;
    let ended = WAITING.replace("count(*)", "count(pg_terminate_backend(pid))");
    assert_eq!(conn.number(&ended).await, 1);
    locker.execute("commit").await;
    events.expect("sends P7").await;
    db.await_state(id, JobState::Completed).await;
    assert_eq!((db.record(id).await.attempt, db.failures(id).await.len()), (1, 0));
    worker.stop().await;
}

async fn a_job_that_finds_no_connection_is_released(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.execute(TABLE).await;
    let name = conn.texts("select current_database()::text as text").await.remove(0);
    let worker = Running::start(with_one_connection(&db, registry![Sends]).await.state(probe));
    events.open(2);
    let id = conn.enqueue(Sends::new(7)).await;
    events.expect("sends P7").await;
    db.await_state(id, JobState::Completed).await;
    let mut admin = AsyncPgConnection::establish(&support::server()).await.unwrap();
    admin.batch_execute(&format!("alter database {name} allow_connections false")).await.unwrap();
    let readers = r#"select count(pg_terminate_backend(pid)) as number from pg_stat_activity
        where datname = current_database() and query like '%"parcel"%' and pid <> pg_backend_pid()"#;
    assert_eq!(conn.number(readers).await, 1);
    let id = conn.enqueue(Sends::new(7)).await;
    // It is released, and so again after the next claim.
    until("two releases", async || (worker.handle().stats().released >= 2).then_some(())).await;
    assert!(events.rest().is_empty());
    admin.batch_execute(&format!("alter database {name} allow_connections true")).await.unwrap();
    events.expect("sends P7").await;
    db.await_state(id, JobState::Completed).await;
    assert_eq!((db.record(id).await.attempt, db.failures(id).await.len()), (1, 0));
    worker.stop().await;
}

/// The rows of this table cannot be read at first.
const LOCKED: &str =
    "create table parcel_row (id bigint primary key, name text not null); insert into parcel_row values (7, 'P');
    create sequence tries;
    create function read_one(number bigint) returns boolean language plpgsql as $$ begin
        if nextval('tries') <= 3 then
            raise exception 'could not obtain lock on row in relation \"parcel_row\"' using errcode = '55P03';
        end if;
        return true;
    end $$;
    create view parcel as select id, name from parcel_row where read_one(id)";

async fn a_lock_that_is_not_available_costs_no_attempt(db: Db) {
    let (probe, mut events) = Probe::new();
    db.execute(LOCKED).await;
    let worker = Running::start(with_one_connection(&db, registry![Sends]).await.state(probe));
    events.open(1);
    let id = db.enqueue(Sends::new(7)).await;
    events.expect("sends P7").await;
    db.await_state(id, JobState::Completed).await;
    assert_eq!((db.record(id).await.attempt, db.failures(id).await.len()), (1, 0));
    worker.stop().await;
}

async fn a_lock_that_is_never_available_ends_the_attempt(db: Db) {
    db.execute(&LOCKED.replace("<= 3", "> 0")).await;
    let worker = Running::start(with_one_connection(&db, registry![SendsInTheEnd]).await);
    let id = db.enqueue(SendsInTheEnd::new(7)).await;
    db.await_state(id, JobState::Discarded).await;
    let failure = db.failures(id).await.remove(0).message;
    let expected =
        "its rows could not be loaded 10 times in a row, at last because of a lock that was not available (55P03)";
    assert!(failure.contains(expected), "{failure}");
    worker.stop().await;
}

support::on_postgres! {
    a_lock_that_is_not_available_costs_no_attempt,
    a_lock_that_is_never_available_ends_the_attempt,
    rows_that_end_every_session_do_not_run_their_job_for_ever,
    the_connection_is_back_in_its_pool_while_the_handler_runs,
    a_row_that_cannot_be_read_in_time_ends_the_attempt,
    a_worker_that_stops_releases_a_job_whose_row_cannot_be_read,
    an_attempt_that_lost_its_lease_reads_no_row,
    a_closed_connection_costs_no_attempt,
    a_server_that_ends_the_statement_costs_no_attempt,
    a_job_that_finds_no_connection_is_released,
}
