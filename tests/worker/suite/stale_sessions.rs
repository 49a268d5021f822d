//! Sessions of the worker's pools that have gone stale, because something was changed after they were opened. They are
//! closed, and the same attempts run again in new ones.

use std::io::Write as _;
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use diesel::expression::AsExpression;
use diesel::pg::Pg;
use diesel::query_builder::QueryId;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::SqlType;
use diesel::{ExpressionMethods as _, Identifiable, PgConnection, QueryDsl as _, Queryable, Selectable};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::rows::Ref;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Database, JobBuilder, JobContext, JobId, JobState, State, Worker, job};
use support::{Db, Events, Probe, Running, registry};

#[derive(SqlType, QueryId)]
#[diesel(postgres_type(name = "mood"))]
pub struct MoodType;

#[derive(Debug, AsExpression)]
#[diesel(sql_type = MoodType)]
#[diesel(sql_type = TemperType)]
struct Calm;

impl ToSql<MoodType, Pg> for Calm {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(b"calm")?;
        Ok(IsNull::No)
    }
}

diesel::table! {
    thing (id) { id -> BigInt, note -> Text, }
}

diesel::table! {
    use diesel::sql_types::Integer;
    use super::MoodType;
    felt (id) { id -> Integer, mood -> MoodType, }
}

const TABLES: &str = "create type mood as enum ('calm'); create table felt (id serial primary key, mood mood);
    create table thing (id bigint primary key, note text not null); insert into thing values (7, 'a note')";

const NOTHING: &str = "select 1";

/// The number of sessions that are used before the change.
const SESSIONS: usize = 3;

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(table_name = thing)]
struct Thing {
    id: i64,
    note: String,
}

#[derive(SqlType, QueryId)]
#[diesel(postgres_type(name = "temper"))]
pub struct TemperType;

impl ToSql<TemperType, Pg> for Calm {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        <Self as ToSql<MoodType, Pg>>::to_sql(self, out)
    }
}

diesel::table! {
    use diesel::sql_types::Integer;
    use super::TemperType;
    tempered (id) { id -> Integer, temper -> TemperType, }
}

/// Instead of SQL: a statement with a type of which the session has not had a value before.
const NEW_TYPE: &str = "a new type";

/// Sends two statements that stay prepared, and then this SQL.
#[job(max_attempts = 1)]
async fn stale_async(
    conn: &mut AsyncPgConnection,
    sql: String,
    waits: bool,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    use diesel_async::RunQueryDsl as _;

    probe.say(ctx, "run");
    if waits {
        probe.pass().await;
    }
    let _: String = thing::table.select(thing::note).first(conn).await?;
    diesel::insert_into(felt::table).values(felt::mood.eq(Calm)).execute(conn).await?;
    if sql == NEW_TYPE {
        let insert = diesel::insert_into(tempered::table).values(tempered::temper.eq(Calm));
        return insert.execute(conn).await.map(drop);
    }
    conn.batch_execute(&sql).await
}

/// The same on a thread. Its error hides Diesel's error.
#[job(max_attempts = 1)]
fn stale_blocking(
    conn: &mut PgConnection,
    sql: String,
    waits: bool,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    use diesel::RunQueryDsl as _;

    probe.say(ctx, "run");
    if waits {
        probe.pass_blocking();
    }
    let say = |error: diesel::result::Error| format!("the note: {error}");
    let _: String = thing::table.select(thing::note).first(conn).map_err(say)?;
    diesel::insert_into(felt::table).values(felt::mood.eq(Calm)).execute(conn).map_err(say)?;
    if sql == NEW_TYPE {
        let insert = diesel::insert_into(tempered::table).values(tempered::temper.eq(Calm));
        return Ok(insert.execute(conn).map(drop).map_err(say)?);
    }
    Ok(conn.batch_execute(&sql).map_err(say)?)
}

/// The same, and its error is Diesel's.
#[job(max_attempts = 1)]
fn stale_plain(
    conn: &mut PgConnection,
    sql: String,
    waits: bool,
    ctx: &JobContext,
    State(probe): State<Probe>,
) -> Result<(), diesel::result::Error> {
    use diesel::RunQueryDsl as _;

    probe.say(ctx, "run");
    if waits {
        probe.pass_blocking();
    }
    let _: String = thing::table.select(thing::note).first(conn)?;
    diesel::insert_into(felt::table).values(felt::mood.eq(Calm)).execute(conn)?;
    if sql == NEW_TYPE {
        let insert = diesel::insert_into(tempered::table).values(tempered::temper.eq(Calm));
        return insert.execute(conn).map(drop);
    }
    conn.batch_execute(&sql)
}

#[job(max_attempts = 1)]
async fn stale_row(thing: Ref<Thing>, waits: bool, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("{} of {}", thing.note, thing.id));
    if waits {
        probe.pass().await;
    }
}

pub(super) struct Kind {
    registry: Registry,
    job: fn(&str, bool) -> JobBuilder,
    /// The worker's role.
    role: &'static str,
}

impl Kind {
    fn new(registry: Registry, job: fn(&str, bool) -> JobBuilder) -> Self {
        Self { registry, job, role: "tester" }
    }

    /// The same, of a worker with this role.
    pub(super) fn of(self, role: &'static str) -> Self {
        Self { role, ..self }
    }
}

pub(super) fn async_kind() -> Kind {
    Kind::new(registry![StaleAsync], |sql, waits| StaleAsync { sql: sql.to_owned(), waits }.into())
}

fn blocking_kind() -> Kind {
    Kind::new(registry![StaleBlocking], |sql, waits| StaleBlocking { sql: sql.to_owned(), waits }.into())
}

pub(super) fn plain_kind() -> Kind {
    Kind::new(registry![StalePlain], |sql, waits| StalePlain { sql: sql.to_owned(), waits }.into())
}

/// A worker that has used [`SESSIONS`] sessions.
async fn used(db: &Db, Kind { registry, job, role }: Kind, sql: &str) -> (Running, Events) {
    let (probe, mut events) = Probe::new();
    // The URL of the tests sets a search path, which would override that of the database.
    let url = db.url().split('?').next().unwrap().replacen("tester@", &format!("{role}@"), 1);
    let storage = Database::open(&url, 8).await.unwrap().storage;
    let worker = Worker::builder(storage).registry(registry).poll_interval(Duration::from_millis(50)).slots(8);
    let worker = Running::start(worker.state(probe));
    for _ in 0..SESSIONS {
        db.enqueue(job(sql, true)).await;
    }
    for _ in 0..SESSIONS {
        events.expect("run").await;
    }
    events.open(SESSIONS);
    await_completed(db, SESSIONS).await;
    (worker, events)
}

/// All jobs have ended well in their first attempts.
async fn await_completed(db: &Db, jobs: usize) {
    db.await_number(jobs as i64, "select count(*) as number from jobs.finished").await;
    let completed = "select count(*) as number from jobs.finished where state = 1 and attempt = 1";
    let error = "select count(*) as number from jobs.job_error";
    assert_eq!((db.number(completed).await, db.number(error).await), (jobs as i64, 0));
}

/// After each change as many jobs run as sessions were used, all at the same time.
async fn changes_cost_no_attempt(db: Db, kind: Kind, changes: &[&str], sql: &str) {
    changes_after_cost_no_attempt(db, kind, "", changes, sql).await;
}

/// The same after this set-up.
async fn changes_after_cost_no_attempt(db: Db, kind: Kind, setup: &str, changes: &[&str], sql: &str) {
    db.execute(&format!("{TABLES}; {setup}")).await;
    let job = kind.job;
    let (worker, events) = used(&db, kind, sql).await;
    events.open(1000);
    for (earlier, change) in changes.iter().enumerate() {
        db.execute(change).await;
        for _ in 0..SESSIONS {
            db.enqueue(job(sql, true)).await;
        }
        await_completed(&db, (earlier + 2) * SESSIONS).await;
    }
    worker.stop().await;
}

pub(super) async fn a_plan_whose_result_type_changed_costs_no_attempt(db: Db, kind: Kind) {
    let changes =
        ["alter table thing alter column note type varchar(200)", "alter table thing alter column note type text"];
    changes_cost_no_attempt(db, kind, &changes, NOTHING).await;
}

pub(super) async fn a_type_that_was_made_anew_costs_no_attempt(db: Db, kind: Kind) {
    let change = "alter table felt drop column mood; drop type mood; create type mood as enum ('wild', 'calm');
        alter table felt add column mood mood";
    changes_cost_no_attempt(db, kind, &[change, change], NOTHING).await;
}

fn altered(setting: &str) -> String {
    format!("do $$ begin execute format('alter database %I set {setting}', current_database()); end $$")
}

/// Moves the tables to another schema, in which new sessions find them.
fn moved() -> String {
    format!(
        "create schema app; grant usage on schema app to public; alter table thing set schema app; alter table felt set schema app; alter type mood set schema app; {}",
        altered("search_path = app, public")
    )
}

/// Only sessions that are opened after the change have the new setting.
pub(super) async fn settings_that_were_altered_cost_no_attempt(db: Db, kind: Kind) {
    changes_cost_no_attempt(db, kind, &[&moved(), &altered("app.tenant = 7")], NOTHING).await;
}

async fn a_setting_of_the_application_that_is_new_costs_no_attempt(db: Db, kind: Kind) {
    // The sessions that were used before have no such setting.
    let sql =
        "do $$ begin if (select count(*) from felt) > 3 then perform current_setting('app.tenant'); end if; end $$";
    changes_cost_no_attempt(db, kind, &[&altered("app.tenant = 7")], sql).await;
}

/// The plan of the function's expression keeps the type of the parameter, and depends on no table.
async fn a_trigger_that_keeps_the_type_of_a_column_costs_no_attempt(db: Db, kind: Kind) {
    let setup = "create table noted (note text); create function check_note() returns trigger language plpgsql as $$
        begin if new.note <> '' then return new; end if; return null; end $$;
        create trigger check_note before insert on noted for each row execute function check_note()";
    let changes =
        ["alter table noted alter column note type varchar(200)", "alter table noted alter column note type text"];
    changes_after_cost_no_attempt(db, kind, setup, &changes, "insert into noted values ('a note')").await;
}

/// The two statements before it find what they need as before.
async fn a_type_that_was_not_used_before_costs_no_attempt(db: Db, kind: Kind) {
    let setup = "create type temper as enum ('calm'); create table tempered (id serial primary key, temper temper)";
    db.execute(&format!("{TABLES}; {setup}")).await;
    let job = kind.job;
    let (worker, events) = used(&db, kind, NOTHING).await;
    events.open(1000);
    let moved = format!(
        "create schema app; alter table tempered set schema app; alter type temper set schema app; {}",
        altered("search_path = app, public")
    );
    db.execute(&moved).await;
    for _ in 0..SESSIONS {
        db.enqueue(job(NEW_TYPE, true)).await;
    }
    await_completed(&db, 2 * SESSIONS).await;
    worker.stop().await;
}

/// It is neither a table nor a column, a function or a type.
async fn another_object_that_was_moved_costs_no_attempt(db: Db, kind: Kind) {
    let setup = "create text search configuration house (copy = simple); create schema app";
    let moved =
        format!("alter text search configuration house set schema app; {}", altered("search_path = app, public"));
    changes_after_cost_no_attempt(db, kind, setup, &[&moved], "select to_tsvector('house', 'a note')").await;
}

/// The message is the application's own.
async fn a_trigger_that_misses_a_new_setting_costs_no_attempt(db: Db, kind: Kind) {
    let setup = "create table noted (note text); create function check_note() returns trigger language plpgsql as $$
        begin
            if (select count(*) from noted) >= 3 and current_setting('app.tenant', true) is null then
                raise exception 'whose note is it?';
            end if;
            return new;
        end $$;
        create trigger check_note before insert on noted for each row execute function check_note()";
    let sql = "insert into noted values ('a note')";
    changes_after_cost_no_attempt(db, kind, setup, &[&altered("app.tenant = 7")], sql).await;
}

/// A new session would have these errors as well, and is not needed to know it.
async fn a_mistake_in_a_statement_is_not_repeated(db: Db, kind: Kind) {
    db.execute(TABLES).await;
    let job = kind.job;
    let (worker, mut events) = used(&db, kind, NOTHING).await;
    events.open(1000);
    for sql in [
        "insert into thing values (7, 'another note')",
        "insert into thing values (8, null)",
        "selec 1",
        "select 1 / (select count(*) from felt where id < 0)",
        "select 'seven'::int",
        "set local statement_timeout = 1; select pg_sleep(600)",
    ] {
        let id = db.enqueue(job(sql, false)).await;
        assert_eq!(db.await_state(id, JobState::Discarded).await.attempt, 1, "{sql}");
        assert_eq!(events.rest().len(), 1, "{sql} was repeated");
    }
    worker.stop().await;
}

async fn prepared_statements_that_a_handler_dropped_cost_no_attempt(db: Db, kind: Kind) {
    db.execute(TABLES).await;
    let job = kind.job;
    let (worker, events) = used(&db, kind, NOTHING).await;
    events.open(1000);
    for (earlier, sql) in ["deallocate all", NOTHING].into_iter().enumerate() {
        for _ in 0..SESSIONS {
            db.enqueue(job(sql, true)).await;
        }
        await_completed(&db, (earlier + 2) * SESSIONS).await;
    }
    worker.stop().await;
}

/// What does not exist in new sessions either is an error of the application. It does not make every attempt run twice.
async fn a_table_that_is_missing_for_all_consumes_attempts(db: Db, kind: Kind) {
    db.execute(TABLES).await;
    let job = kind.job;
    let (worker, mut events) = used(&db, kind, NOTHING).await;
    events.open(1000);
    const JOBS: usize = 20;
    let mut ids = Vec::new();
    for _ in 0..JOBS {
        ids.push(db.enqueue(job("insert into nowhere values (1)", false)).await);
    }
    for id in ids {
        let record = db.await_state(id, JobState::Discarded).await;
        let failures = db.failures(id).await;
        assert_eq!((record.attempt, failures.len()), (1, 1));
        assert!(failures[0].message.contains("relation \"nowhere\" does not exist"), "{failures:?}");
        assert!(!failures[0].message.contains("times in a row"), "{failures:?}");
    }
    worker.stop().await;
    // The jobs that run at the same time may all run once more.
    let runs = events.rest().len();
    assert!(runs <= JOBS + 8, "{runs} runs");
}

/// It is missing in a new session, too. Then the tables are moved, which the session that the pool has kept does not
/// see.
async fn a_table_that_is_missing_for_one_kind_costs_no_other_an_attempt(db: Db, kind: Kind) {
    db.execute(TABLES).await;
    let job = kind.job;
    let (worker, events) = used(&db, kind, NOTHING).await;
    events.open(1000);
    for change in [NOTHING.to_owned(), moved()] {
        let broken = db.enqueue(job("insert into nowhere values (1)", false)).await;
        assert_eq!(db.await_state(broken, JobState::Discarded).await.attempt, 1);
        db.execute(&change).await;
        for _ in 0..SESSIONS {
            let id = db.enqueue(job(NOTHING, false)).await;
            let record = db.await_state(id, JobState::Completed).await;
            assert_eq!((record.attempt, db.failures(id).await.len()), (1, 0));
        }
    }
    worker.stop().await;
}

/// The worker's transaction allows writes, so only the handler itself can have changed that.
async fn a_handler_that_makes_its_transaction_read_only_is_told_so(db: Db, kind: Kind) {
    db.execute(TABLES).await;
    let sql = "set transaction read only";
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(kind.registry).state(probe));
    for sql in [sql.to_owned(), format!("{sql}; insert into felt (mood) values ('calm')")] {
        let id: JobId = db.enqueue((kind.job)(&sql, false)).await;
        assert_eq!(db.await_state(id, JobState::Discarded).await.attempt, 1);
        let message = &db.failures(id).await[0].message;
        assert!(message.contains("the handler made its transaction read only"), "{message}");
        assert!(message.contains("in a read-only transaction") && !message.contains("standby"), "{message}");
        assert_eq!(events.rest().len(), 1, "it would fail again");
    }
    worker.stop().await;
}

async fn a_row_is_loaded_through_a_session_that_is_not_stale(db: Db) {
    db.execute(TABLES).await;
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![StaleRow]).state(probe));
    for change in [
        "select 1",
        "alter table thing alter column note type varchar(200)",
        "alter table thing alter column note type text",
    ] {
        db.execute(change).await;
        db.enqueue(StaleRow::new(7, false)).await;
        events.expect("a note of 7").await;
    }
    await_completed(&db, 3).await;
    worker.stop().await;
}

/// On this connection Diesel drops the server's error.
#[test]
fn a_type_that_was_not_used_before_costs_no_attempt_if_the_error_is_diesels() {
    support::run(Db::postgres(), |db| a_type_that_was_not_used_before_costs_no_attempt(db, plain_kind()));
}

support::on_postgres! { a_row_is_loaded_through_a_session_that_is_not_stale }

on_each_connection! {
    a_plan_whose_result_type_changed_costs_no_attempt,
    a_type_that_was_made_anew_costs_no_attempt,
    settings_that_were_altered_cost_no_attempt,
    a_setting_of_the_application_that_is_new_costs_no_attempt,
    a_trigger_that_keeps_the_type_of_a_column_costs_no_attempt,
    a_type_that_was_not_used_before_costs_no_attempt,
    another_object_that_was_moved_costs_no_attempt,
    a_trigger_that_misses_a_new_setting_costs_no_attempt,
    a_mistake_in_a_statement_is_not_repeated,
    prepared_statements_that_a_handler_dropped_cost_no_attempt,
    a_table_that_is_missing_for_all_consumes_attempts,
    a_table_that_is_missing_for_one_kind_costs_no_other_an_attempt,
    a_handler_that_makes_its_transaction_read_only_is_told_so,
}
