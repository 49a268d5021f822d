//! Rows that this program cannot run: arguments that do not fit, and unknown kinds.

use diesel_jobs::handler::FailureKind;
use diesel_jobs::{Job as _, JobId, JobState, NewJob, job};
use support::{Db, Running, registry};

#[job(max_attempts = 2, backoff = "fixed(1ms)")]
async fn charge(card: String, cents: i64) {
    drop((card, cents));
}

#[job]
async fn fine() {}

/// Arguments that plain SQL can insert, a part of them that must not appear in the failure, and a text that must.
const MISFITS: [(&str, &str, &str); 5] = [
    (r#"{"card": 4111222233334444, "cents": 5}"#, "4111", "`card`: expected a string"),
    (r#"{"card": "secret-number", "cents": "secret-sum"}"#, "secret", "`cents`: expected i64"),
    (r#"{"card": "secret-number"}"#, "secret", "missing field `cents`"),
    (r#"["secret-number", 5]"#, "secret", "expected the arguments of job `charge`"),
    (r#""secret-number""#, "secret", "expected the arguments of job `charge`"),
];

/// Inserts a row as plain SQL does.
async fn insert(db: &Db, args: &str, attempt: u16, max_attempts: u16) -> JobId {
    let mut conn = db.conn().await;
    let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
    conn.execute(&format!(
        "insert into {table} (kind, queue, attempt, max_attempts, args) values ('charge', 'default', {attempt}, {max_attempts}, '{args}')"
    ))
    .await;
    JobId(conn.number("select max(id) as number from jobs.job").await)
}

async fn arguments_that_do_not_fit_are_a_stored_failure_that_does_not_repeat_them(db: Db) {
    for (args, secret, said) in MISFITS {
        let id = insert(&db, args, 0, 1).await;
        let stats = db.work(registry![Charge, Fine]).await;
        let (job, failures) = db.show(id).await;
        assert_eq!((stats.discarded, job.state, failures.len()), (1, JobState::Discarded, 1), "{args}");
        let failure = &failures[0];
        assert_eq!(failure.kind, FailureKind::Undecodable, "{failure:?}");
        assert!(failure.message.contains("`charge`") && failure.message.contains(said), "{failure:?}");
        assert!(!failure.message.contains(secret), "{failure:?}");
    }
}

/// A newer worker may be able to decode them. During a deployment, older workers get arguments that they cannot decode.
async fn undecodable_arguments_wait_for_a_newer_program_and_not_for_ever(db: Db) {
    let last = insert(&db, MISFITS[0].0, 4, 25).await;
    let stats = db.work(registry![Charge]).await;
    let (job, failures) = db.show(last).await;
    assert_eq!((stats.discarded, job.state, job.attempt, failures.len()), (1, JobState::Discarded, 5, 1));

    let first = insert(&db, MISFITS[0].0, 0, 25).await;
    let worker = Running::start(db.worker(registry![Charge]));
    db.await_number(1, &format!("select count(*) as number from jobs.job_error where job_id = {first}")).await;
    worker.stop().await;
    let (job, failures) = db.show(first).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Retrying, 1, 1));
    // The wait is longer than the backoff of this kind, which is a millisecond.
    assert!((job.run_at - failures[0].at).num_seconds() >= 10, "{} {failures:?}", job.run_at);
}

async fn a_job_of_an_unknown_kind_is_not_claimed_and_blocks_no_job(db: Db) {
    let mut strange = NewJob::raw("written_by_a_newer_version", r#"{"secret": 1}"#);
    strange.priority = 1000;
    let mut conn = db.conn().await;
    let strangers = conn.enqueue_all((0..50).map(|_| strange.clone())).await;
    let known = conn.enqueue(Fine {}.priority(-1)).await;
    let stats = db.work(registry![Fine]).await;
    assert_eq!((stats.claimed, stats.completed), (1, 1));
    assert_eq!(db.record(known).await.state, JobState::Completed);
    for id in strangers {
        let (job, failures) = db.show(id).await;
        assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
    }
}

support::on_each_database! {
    arguments_that_do_not_fit_are_a_stored_failure_that_does_not_repeat_them,
    undecodable_arguments_wait_for_a_newer_program_and_not_for_ever,
    a_job_of_an_unknown_kind_is_not_claimed_and_blocks_no_job,
}
