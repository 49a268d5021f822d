//! Handlers that take rows and no connection: the worker loads the rows before it calls them.

use std::time::Duration;

use diesel::{Identifiable, Queryable, Selectable, SqliteConnection};
use diesel_async::AsyncPgConnection;
use diesel_jobs::rows::{Key, Ref};
use diesel_jobs::worker::RegistryError;
use diesel_jobs::{JobContext, JobError, JobId, JobState, State, WorkerError, job};
use support::{Db, Probe, Running, registry};

diesel::table! {
    account (id) { id -> BigInt, name -> Text, }
}

diesel::table! {
    seat (line, place) { line -> Text, place -> Integer, taken -> Bool, }
}

pub(crate) const TABLES: &str = "
    create table account (id bigint primary key, name text not null);
    create table seat (line text, place integer, taken boolean not null, primary key (line, place));
    insert into account values (7, 'Ada'), (8, 'Grace');
    insert into seat values ('A', 3, true)";

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(table_name = account)]
pub(crate) struct Account {
    pub(crate) id: i64,
    pub(crate) name: String,
}

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(table_name = seat, primary_key(line, place))]
struct Seat {
    place: i32,
    line: String,
}

#[job]
async fn greets(Ref(account): Ref<Account>, seat: Ref<Seat>, ctx: &JobContext, State(probe): State<Probe>) {
    tokio::task::yield_now().await;
    probe.say(ctx, format!("{} at {}{}", account.name, seat.line, seat.place));
}

#[job(timeout = "1h")]
async fn greets_in_time(account: Ref<Account>, ctx: JobContext, State(probe): State<Probe>) {
    probe.say(&ctx, format!("{} in time", account.name));
}

#[job]
fn greets_on_a_thread(
    word: &str,
    account: Ref<Account>,
    seat: Ref<Seat>,
    ctx: &JobContext,
    State(probe): State<Probe>,
) {
    probe.say(ctx, format!("{word} {} {}{}", account.name, seat.line, seat.place));
}

#[job]
async fn cancels(_account: Ref<Account>) {
    panic!("called without its row");
}

#[job]
fn discards(#[arg(gone = "discard")] _account: Ref<Account>) {
    panic!("called without its row");
}

#[job(max_attempts = 2, backoff = "fixed(10ms)")]
async fn retries(#[arg(gone = "retry")] account: Ref<Account>, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("{} is back", account.id));
}

#[job]
fn decides(#[arg(gone = "none")] account: Option<Ref<Account>>, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, account.map_or("nobody".to_owned(), |account| account.into_inner().name));
}

#[job(max_attempts = 1)]
async fn panics(account: Ref<Account>) -> Result<(), JobError> {
    panic!("not {}", account.name);
}

#[job(max_attempts = 1)]
fn panics_on_a_thread(account: Ref<Account>) {
    panic!("not {}", account.name);
}

async fn a_handler_without_a_connection_gets_its_rows(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.execute(TABLES).await;
    let seat = || Key::new(("A".to_owned(), 3));
    conn.enqueue(Greets::new(7, seat())).await;
    conn.enqueue(GreetsInTime::new(8)).await;
    conn.enqueue(GreetsOnAThread::new("Hello,", 8, seat())).await;
    conn.enqueue(Decides::new(8)).await;
    conn.enqueue(Decides::new(9)).await;
    let registry = registry![Greets, GreetsInTime, GreetsOnAThread, Decides];
    let worker = db.worker(registry).state(probe).build().unwrap();
    assert_eq!(worker.run_until_empty().await.unwrap().completed, 5);
    let mut said: Vec<_> = events.rest().into_iter().map(|event| event.text).collect();
    said.sort();
    assert_eq!(said, ["Ada at A3", "Grace", "Grace in time", "Hello, Grace A3", "nobody"]);
}

async fn a_job_whose_row_is_gone_ends_as_its_argument_says(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.execute(TABLES).await;
    let cancelled = conn.enqueue(Cancels::new(9)).await;
    let discarded = conn.enqueue(Discards::new(9)).await;
    let retried = conn.enqueue(Retries::new(9)).await;
    let worker = Running::start(db.worker(registry![Cancels, Discards, Retries]).state(probe));
    let gone = "there is no `Account` with the primary key 9";
    let message = async |id: JobId| db.failures(id).await.into_iter().map(|failure| failure.message);
    db.await_state(cancelled, JobState::Cancelled).await;
    assert!(message(cancelled).await.eq([gone]));
    assert_eq!(db.await_state(discarded, JobState::Discarded).await.attempt, 1);
    assert!(message(discarded).await.eq([gone]));
    assert_eq!(db.await_state(retried, JobState::Discarded).await.attempt, 2);
    assert!(message(retried).await.eq([gone, gone]));
    db.execute("insert into account values (9, 'Edsger')").await;
    db.enqueue(Retries::new(9)).await;
    events.expect("9 is back").await;
    worker.stop().await;
}

async fn a_panic_and_a_failed_query_fail_the_attempt(db: Db) {
    let mut conn = db.conn().await;
    conn.execute(TABLES).await;
    let panicked = [conn.enqueue(Panics::new(7)).await, conn.enqueue(PanicsOnAThread::new(7)).await];
    let wrong = conn.enqueue(Panics { account: serde_json::from_str("\"x\"").unwrap() }).await;
    db.work(registry![Panics, PanicsOnAThread]).await;
    for id in panicked {
        assert!(db.failures(id).await[0].message.ends_with("not Ada"), "{:?}", db.failures(id).await);
    }
    assert!(db.failures(wrong).await[0].message.contains("invalid type"), "{:?}", db.failures(wrong).await);
    conn.execute("alter table account rename to accounts").await;
    let failed = conn.enqueue(Panics::new(7)).await;
    db.work(registry![Panics]).await;
    assert!(db.failures(failed).await[0].message.contains("account"), "{:?}", db.failures(failed).await);
}

#[job(kind = "rows_holds_the_transaction")]
async fn holds_pg(_conn: &mut AsyncPgConnection, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "holds");
    probe.pass().await;
}

#[job(kind = "rows_holds_the_file")]
fn holds_sqlite(_conn: &mut SqliteConnection, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "holds");
    probe.pass_blocking();
}

/// On SQLite, such a handler has the only right to write.
async fn a_handler_with_a_transaction_holds_up_no_rows(db: Db) {
    let (probe, mut events) = Probe::new();
    db.execute(TABLES).await;
    let registry = match db.is_postgres() {
        true => registry![HoldsPg, GreetsInTime],
        false => registry![HoldsSqlite, GreetsInTime],
    };
    let (holds, greets) = match db.is_postgres() {
        true => (db.enqueue(HoldsPg {}).await, db.enqueue(GreetsInTime::new(7)).await),
        false => (db.enqueue(HoldsSqlite {}).await, db.enqueue(GreetsInTime::new(7)).await),
    };
    let worker = Running::start(db.worker(registry).state(probe).grace_period(Duration::from_secs(600)));
    let said = [events.next().await, events.next().await];
    assert!(said.iter().any(|event| event.job == greets && event.text == "Ada in time"), "{said:?}");
    assert!(said.iter().any(|event| event.job == holds), "{said:?}");
    events.open(1);
    db.await_state(greets, JobState::Completed).await;
    worker.stop().await;
}

diesel::table! {
    tagged (id) { id -> BigInt, tags -> Array<Text>, }
}

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(table_name = tagged)]
struct Tagged {
    id: i64,
    tags: Vec<String>,
}

#[job]
async fn reads_tags(tagged: Ref<Tagged>) {
    assert_eq!(tagged.id, tagged.tags.len() as i64);
}

async fn a_worker_refuses_rows_that_its_database_cannot_have(db: Db) {
    let built = db.worker(registry![ReadsTags]).build();
    if db.is_postgres() {
        assert!(built.is_ok());
        return;
    }
    let error = built.expect_err("refused");
    assert!(matches!(error, WorkerError::Registry(RegistryError::WrongRows { kind: "reads_tags", .. })), "{error}");
    assert!(error.to_string().contains("cannot be loaded from this worker's database (SQLite)"), "{error}");
}

support::on_each_database! {
    a_handler_without_a_connection_gets_its_rows,
    a_job_whose_row_is_gone_ends_as_its_argument_says,
    a_panic_and_a_failed_query_fail_the_attempt,
    a_handler_with_a_transaction_holds_up_no_rows,
    a_worker_refuses_rows_that_its_database_cannot_have,
}
