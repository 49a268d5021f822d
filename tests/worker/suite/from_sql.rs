//! Enqueueing in plain SQL: `select jobs.enqueue(..)`, by hand and in a trigger.

use diesel_jobs::{JobContext, JobId, JobState, State, job};
use support::{Conn, Db, Probe, Running, registry};

#[job]
async fn greet(name: String, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, name);
}

#[job]
async fn nothing() {}

async fn enqueue(conn: &mut Conn, arguments: &str) -> JobId {
    JobId(conn.number(&format!("select jobs.enqueue({arguments}) as number")).await)
}

/// Returns PostgreSQL's error for a statement that it must refuse.
async fn refusal(db: &Db, sql: &str) -> String {
    let Conn::Postgres(mut conn) = db.conn().await else { panic!("not PostgreSQL") };
    diesel_async::SimpleAsyncConnection::batch_execute(&mut *conn, sql).await.unwrap_err().to_string()
}

async fn defaults_are_those_of_a_job_without_options(db: Db) {
    let mut conn = db.conn().await;
    let id = enqueue(&mut conn, "'nothing'").await;
    let job = db.record(id).await;
    assert_eq!((&*job.kind, &*job.queue, job.priority, job.max_attempts), ("nothing", "default", 0, 25));
    assert_eq!((job.state, job.attempt, &*job.args, job.tags.len()), (JobState::Available, 0, "{}", 0));
    assert!((job.run_at - job.enqueued_at).num_seconds() == 0);
    assert_eq!(db.work(registry![Nothing]).await.completed, 1);
}

/// A bracket in a string is no level.
async fn arguments_that_no_worker_could_read_are_refused(db: Db) {
    let enqueue = |args: &str| format!("select jobs.enqueue('nothing', ({args})::json) as number");
    for args in [
        "repeat('[', 128) || repeat(']', 128)",
        r#"repeat('{"a\"[": ', 128) || '1' || repeat('}', 128)"#,
        "'[' || repeat('[],', 200) || repeat('[', 127) || repeat(']', 128)",
    ] {
        let refused = refusal(&db, &enqueue(args)).await;
        assert!(refused.contains("the arguments of job nothing are nested more than 127 levels deep"), "{refused}");
    }
    for args in [
        "repeat('[', 127) || repeat(']', 127)",
        r#"'["' || repeat('[', 200) || '\"{"]'"#,
        "'[' || repeat('[],', 200) || '1]'",
    ] {
        assert!(db.number(&enqueue(args)).await > 0, "{args}");
    }
}

async fn arguments_are_named(db: Db) {
    let mut conn = db.conn().await;
    let id = enqueue(
        &mut conn,
        "kind => 'greet', args => '{\"name\": \"ada\"}', queue => 'mail', priority => -5,
         run_at => now() + interval '1 hour', max_attempts => 3, tags => array['a', 'b']",
    )
    .await;
    let job = db.record(id).await;
    assert_eq!((&*job.queue, job.priority, job.max_attempts), ("mail", -5, 3));
    assert_eq!(job.tags, ["a", "b"]);
    assert!((job.run_at - job.enqueued_at).num_minutes() >= 59);
    assert_eq!(job.args, r#"{"name": "ada"}"#);
}

async fn a_sleeping_worker_is_woken_at_the_commit(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Greet]).state(probe).poll_interval(std::time::Duration::from_secs(3600));
    let worker = Running::start(worker);
    support::until("the worker to sleep", async || {
        (db.number("select count(*) as number from jobs.worker where idle").await == 1).then_some(())
    })
    .await;
    let mut conn = db.conn().await;
    enqueue(&mut conn, r#"'greet', '{"name": "grace"}'"#).await;
    events.expect("grace").await;
    worker.stop().await;
}

async fn a_trigger_enqueues_with_the_row_or_not_at_all(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.execute(
        "create table person (name text primary key);
         create function greet_person() returns trigger language plpgsql as $$ begin
             perform jobs.enqueue('greet', json_build_object('name', new.name)); return new;
         end $$;
         create trigger greet after insert on person for each row execute function greet_person()",
    )
    .await;
    for sql in
        ["begin", "insert into person values ('nobody')", "rollback", "insert into person values ('ada'), ('grace')"]
    {
        conn.execute(sql).await;
    }
    let worker = Running::start(db.worker(registry![Greet]).state(probe).slots(1));
    events.expect("ada").await;
    events.expect("grace").await;
    worker.stop().await;
    assert_eq!(db.number("select count(*) as number from jobs.job").await, 2);
}

/// The function refuses what the Rust API refuses: rows that no program can write, and that some programs cannot read.
async fn bad_arguments_are_refused_with_a_reason(db: Db) {
    for (arguments, reason) in [
        ("''", "kind and queue must not be empty"),
        ("null", "kind and queue must not be empty"),
        ("'a', queue => ''", "kind and queue must not be empty"),
        ("'a', args => 'not json'", "invalid input syntax for type json"),
        ("'a', args => to_json(repeat('x', 300000))", "262144"),
        ("'a', max_attempts => 0", "max_attempts"),
        ("'a', priority => 40000", "must be from"),
        ("'a', no_such => 1", "does not exist"),
        ("'a', run_at => 'infinity'", "hundred years"),
        ("'a', run_at => now() + interval '101 years'", "hundred years"),
        ("'a', tags => array['x', null]", "tags"),
        ("'a', tags => array_fill('x'::text, array[33])", "32 tags"),
        ("repeat('k', 201)", "200 bytes"),
        ("'a', queue => repeat('q', 201)", "200 bytes"),
        ("'a', queue => 'tenant-*'", "the queue tenant-* contains *"),
    ] {
        let refusal = refusal(&db, &format!("select jobs.enqueue({arguments})")).await;
        assert!(refusal.contains(reason), "{arguments}: {refusal}");
    }
    assert_eq!(db.number("select count(*) as number from jobs.job").await, 0);
}

/// A plain insert into the table, without `jobs.enqueue`.
async fn a_row_without_arguments_is_refused(db: Db) {
    let refusal = refusal(&db, "insert into jobs.ready (kind) values ('nothing')").await;
    assert!(refusal.contains("kind nothing has no args"), "{refusal}");
    assert_eq!(db.number("select count(*) as number from jobs.job").await, 0);
}

async fn large_arguments_that_somebody_deleted_fail_their_job_and_no_other(db: Db) {
    let (probe, mut events) = Probe::new();
    let name = "a".repeat(3000);
    let bereft = db.enqueue(Greet { name: name.clone() }).await;
    db.execute("delete from jobs.payload").await;
    db.enqueue(Greet { name: name.clone() }).await;
    let worker = Running::start(db.worker(registry![Greet]).state(probe));
    events.expect(&name).await;
    db.await_number(1, "select count(*) as number from jobs.job_error").await;
    assert_eq!(db.failures(bereft).await[0].kind, diesel_jobs::handler::FailureKind::Undecodable);
    worker.stop().await;
}

support::on_postgres! {
    a_row_without_arguments_is_refused,
    large_arguments_that_somebody_deleted_fail_their_job_and_no_other,
    defaults_are_those_of_a_job_without_options,
    arguments_are_named,
    arguments_that_no_worker_could_read_are_refused,
    a_sleeping_worker_is_woken_at_the_commit,
    a_trigger_enqueues_with_the_row_or_not_at_all,
    bad_arguments_are_refused_with_a_reason,
}
