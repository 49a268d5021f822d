//! Rows that this program cannot run: arguments that do not fit, kinds it does not know.

use jobs::{FailureKind, Job as _, JobState, NewJob, job};
use support::{Db, registry};

#[job(max_attempts = 2, backoff = "fixed(1ms)")]
async fn charge(card: String, cents: i64) {
    drop((card, cents));
}

#[job]
async fn fine() {}

/// What plain SQL can put into the table, and a word of it that must not come out again.
const MISFITS: [(&str, &str); 5] = [
    (r#"{"card": 4111222233334444, "cents": 5}"#, "4111"),
    (r#"{"card": "secret-number", "cents": "secret-sum"}"#, "secret"),
    (r#"{"card": "secret-number"}"#, "secret"),
    (r#"["secret-number", 5]"#, "secret"),
    (r#""secret-number""#, "secret"),
];

async fn arguments_that_do_not_fit_are_a_stored_failure_that_does_not_repeat_them(db: Db) {
    for (args, secret) in MISFITS {
        let mut conn = db.conn().await;
        let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
        conn.execute(&format!(
            "insert into {table} (kind, queue, max_attempts, args) values ('charge', 'default', 2, '{args}')"
        ))
        .await;
        let id = jobs::JobId(conn.number("select max(id) as number from jobs.job").await);
        let stats = db.work(registry![Charge, Fine]).await;
        let (job, failures) = db.show(id).await;
        assert_eq!((stats.retried, stats.discarded, job.state), (1, 1, JobState::Discarded), "{args}");
        assert_eq!(failures.len(), 2);
        for failure in failures {
            assert_eq!(failure.kind, FailureKind::Undecodable, "{failure:?}");
            assert!(failure.message.contains("`charge`") && !failure.message.contains(secret), "{failure:?}");
        }
    }
}

async fn a_kind_this_worker_does_not_know_is_left_alone_and_blocks_nobody(db: Db) {
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
    a_kind_this_worker_does_not_know_is_left_alone_and_blocks_nobody,
}
