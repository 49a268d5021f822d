//! The trace context of an enqueue is stored with the job, and reaches each of its attempts.

use std::sync::{Mutex, Once};
use std::time::Duration;

use diesel::prelude::*;
use diesel_jobs::enqueue::EnqueueEach as _;
use diesel_jobs::trace::{TraceRelation, set_trace_link, set_trace_source};
use diesel_jobs::{Enqueue as _, Job as _, JobContext, JobError, JobId, JobState, enqueue_all, job};
use support::{Conn, Db, Running, registry};

tokio::task_local! {
    static TRACE: &'static str;
}

/// What the link was called with: the trace id, and how the attempt belongs to it.
static LINKS: Mutex<Vec<(String, TraceRelation)>> = Mutex::new(Vec::new());
/// What handlers got, by the kind and the idempotency key, because jobs of different databases may have the same id.
static SEEN: Mutex<Vec<(String, u16, Option<String>)>> = Mutex::new(Vec::new());

fn see(ctx: &JobContext) {
    let key = format!("{} {}", ctx.kind(), ctx.idempotency_key());
    SEEN.lock().unwrap().push((key, ctx.attempt(), ctx.traceparent().map(str::to_owned)));
}

/// Other tests of this process have no trace context, because they do not set the task's.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        assert!(set_trace_source(|| TRACE.try_with(|trace| (*trace).to_owned()).ok()));
        assert!(set_trace_link(|_, traceparent, relation| {
            LINKS.lock().unwrap().push((traceparent.as_str().to_owned(), relation));
        }));
    });
    assert!(!set_trace_source(|| None), "the first source stays");
}

#[job]
async fn traced(ctx: &JobContext) {
    see(ctx);
}

#[job(backoff = "fixed(1ms)")]
fn traced_twice(ctx: &JobContext) -> Result<(), JobError> {
    see(ctx);
    if ctx.attempt() == 1 { Err(JobError::msg("once")) } else { Ok(()) }
}

#[job]
async fn traced_number(number: i64) {
    let _ = number;
}

async fn in_trace<T>(trace: &'static str, work: impl Future<Output = T>) -> T {
    install();
    TRACE.scope(trace, work).await
}

async fn seen(db: &Db, id: JobId) -> Vec<(u16, Option<String>)> {
    let record = db.record(id).await;
    let key = format!("{} job-{id}-{}", record.kind, record.enqueued_at.timestamp_micros());
    let seen = SEEN.lock().unwrap();
    seen.iter().filter(|(of, ..)| *of == key).map(|(_, attempt, trace)| (*attempt, trace.clone())).collect()
}

fn links(trace: &str) -> Vec<TraceRelation> {
    LINKS.lock().unwrap().iter().filter(|(of, _)| of == trace).map(|(_, relation)| *relation).collect()
}

async fn stored(db: &Db, id: JobId) -> Vec<String> {
    let view = if db.is_postgres() { "jobs.job" } else { "jobs.job_view" };
    db.conn().await.texts(&format!("select coalesce(traceparent, 'none') as text from {view} where id = {id}")).await
}

/// The texts differ, so that parallel tests do not mix.
macro_rules! trace {
    ($db:ident, $number:literal) => {
        if $db.is_postgres() {
            concat!("00-0af7651916cd43dd8448eb211c8031", $number, "-b7ad6b7169203331-01")
        } else {
            concat!("00-1af7651916cd43dd8448eb211c8031", $number, "-b7ad6b7169203331-01")
        }
    };
}

async fn an_attempt_gets_the_trace_of_its_enqueue_and_a_retry_is_linked(db: Db) {
    let trace = trace!(db, "01");
    let id = in_trace(trace, db.enqueue(TracedTwice {})).await;
    assert_eq!(stored(&db, id).await, [trace]);
    let worker = Running::start(db.worker(registry![TracedTwice]));
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
    assert_eq!(seen(&db, id).await, [(1, Some(trace.to_owned())), (2, Some(trace.to_owned()))]);
    assert_eq!(links(trace), [TraceRelation::Child, TraceRelation::Link]);
    assert_eq!(stored(&db, id).await, [trace], "ended jobs keep it");
}

async fn a_delayed_job_is_linked(db: Db) {
    let trace = trace!(db, "02");
    let id = in_trace(trace, db.enqueue(Traced {}.delay(Duration::from_millis(1500)))).await;
    let worker = Running::start(db.worker(registry![Traced]));
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
    assert_eq!(links(trace), [TraceRelation::Link]);
}

/// Each statement that inserts jobs stores it.
async fn bulks_store_the_trace_of_their_enqueue(db: Db) {
    let trace = trace!(db, "03");
    db.execute("create table trace_source (id bigint primary key); insert into trace_source values (5), (6)").await;
    diesel::table! { trace_source (id) { id -> BigInt, } }
    let alike = || vec![Traced {}, Traced {}, Traced {}];
    let mixed = || vec![Traced {}.into(), TracedTwice {}.priority(3)];
    let rows = || trace_source::table.order(trace_source::id);
    in_trace(trace, async {
        match db.conn().await {
            Conn::Postgres(mut conn) => {
                enqueue_all(&mut *conn, alike()).await.unwrap();
                enqueue_all(&mut *conn, mixed()).await.unwrap();
                let each = rows().enqueue_each(&mut *conn, TracedNumber::columns(trace_source::id)).await;
                assert_eq!(each.unwrap(), 2);
                let (mut one, mut other) = (&*conn, &*conn);
                Traced {}.enqueue(&mut one).await.unwrap();
                enqueue_all(&mut other, alike()).await.unwrap();
                let mut sync = PgConnection::establish(db.url()).unwrap();
                Traced {}.enqueue(&mut sync).unwrap();
                enqueue_all(&mut sync, mixed()).unwrap();
            }
            Conn::Sqlite(mut conn) => {
                enqueue_all(&mut *conn, alike()).unwrap();
                enqueue_all(&mut *conn, mixed()).unwrap();
                assert_eq!(rows().enqueue_each(&mut *conn, TracedNumber::columns(trace_source::id)).unwrap(), 2);
            }
        }
    })
    .await;
    let jobs = if db.is_postgres() { 3 + 2 + 2 + 1 + 3 + 1 + 2 } else { 3 + 2 + 2 };
    let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
    let with = db.number(&format!("select count(*) as number from {table} where traceparent = '{trace}'")).await;
    assert_eq!((with, db.number(&format!("select count(*) as number from {table}")).await), (jobs, jobs));
}

async fn a_text_that_is_no_traceparent_is_dropped(db: Db) {
    let id = in_trace("00-secret", db.enqueue(Traced {})).await;
    assert_eq!(stored(&db, id).await, ["none"]);
    let other = db.enqueue(Traced {}).await;
    assert_eq!(stored(&db, other).await, ["none"], "no trace, no text");
    // SQL can store anything.
    let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
    db.execute(&format!("update {table} set traceparent = 'x-y' where id = {id}")).await;
    db.work(registry![Traced]).await;
    assert_eq!(seen(&db, id).await, [(1, None)]);
}

support::on_each_database! {
    an_attempt_gets_the_trace_of_its_enqueue_and_a_retry_is_linked,
    a_delayed_job_is_linked,
    bulks_store_the_trace_of_their_enqueue,
    a_text_that_is_no_traceparent_is_dropped,
}
