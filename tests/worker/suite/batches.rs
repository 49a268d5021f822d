//! Batches: one call of a handler for several jobs, with a result, a lease and retries for each.

use std::time::{Duration, Instant};

use diesel_jobs::prelude::*;
use diesel_jobs::{FailureKind, JobId, JobState, NewJob};
use support::{Db, Events, Probe, Running, registry};

/// What the handler does with a job. Each job has another number.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 4), max_attempts = 5, backoff = "fixed(1h)", timeout = "20s")]
struct Index {
    number: i64,
    does: String,
}

impl HandleBatch for Index {
    async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        let probe: &Probe = ctx.state().expect("the tests give one");
        let numbers: Vec<String> = jobs.iter().map(|job| job.number.to_string()).collect();
        probe.say(&ctx.jobs()[0], numbers.join(" "));
        match jobs[0].does.as_str() {
            "wait" => probe.pass().await,
            "panic" => panic!("no index"),
            "fail" => return Err(JobError::msg("no server").retry_in(Duration::from_secs(7200))),
            "too few" => return Ok(vec![Ok(Outcome::Complete)]),
            _ => {}
        }
        let result = |job: &Self| match job.does.as_str() {
            "snooze" => Ok(Outcome::Snooze(Duration::from_secs(60))),
            "refuse" => Err(JobError::msg(format!("{} is refused", job.number))),
            "fatal" => Err(JobError::msg("never").fatal()),
            _ => Ok(Outcome::Complete),
        };
        Ok(jobs.iter().map(result).collect())
    }
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 4), timeout = "300ms", max_attempts = 1)]
struct Slow {
    number: i64,
}

impl HandleBatch for Slow {
    async fn handle(_: Vec<Self>, _: BatchContext) -> BatchHandled {
        std::future::pending().await
    }
}

/// Jobs with the same index run together.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 3, wait = "8s", by(index)))]
struct Gathered {
    index: String,
    number: i64,
}

impl HandleBatch for Gathered {
    async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        let probe: &Probe = ctx.state().expect("the tests give one");
        let numbers: Vec<String> = jobs.iter().map(|job| format!("{}{}", job.index, job.number)).collect();
        probe.say(&ctx.jobs()[0], numbers.join(" "));
        ctx.complete_all()
    }
}

#[job]
async fn single(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "single");
}

fn index(number: i64, does: &str) -> Index {
    Index { number, does: does.to_owned() }
}

async fn enqueue(db: &Db, jobs: impl IntoIterator<Item = Index>) -> Vec<JobId> {
    db.conn().await.enqueue_all(jobs).await
}

fn start(db: &Db, slots: usize) -> (Running, Events) {
    let (probe, events) = Probe::new();
    (Running::start(db.worker(registry![Index, Slow, Gathered, Single]).state(probe).concurrency(slots)), events)
}

async fn a_call_gets_at_most_so_many_jobs_in_their_order(db: Db) {
    let ids = enqueue(&db, (1..=10).map(|number| index(number, ""))).await;
    let (worker, mut events) = start(&db, 1);
    for batch in ["1 2 3 4", "5 6 7 8", "9 10"] {
        events.expect(batch).await;
    }
    for id in ids {
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!(job.attempt, 1);
    }
    worker.stop().await;
}

async fn each_job_has_a_result_of_its_own(db: Db) {
    let jobs = [index(1, ""), index(2, "snooze"), index(3, "refuse"), index(4, "fatal")];
    let ids = enqueue(&db, jobs).await;
    let (worker, mut events) = start(&db, 1);
    events.expect("1 2 3 4").await;
    let states = [JobState::Completed, JobState::Scheduled, JobState::Retrying, JobState::Discarded];
    let mut attempts = Vec::new();
    for (id, state) in ids.iter().zip(states) {
        attempts.push(db.await_state(*id, state).await.attempt);
    }
    assert_eq!(attempts, [1, 0, 1, 1], "a snooze consumes no attempt");
    assert_eq!(db.failures(ids[2]).await[0].message, "3 is refused");
    worker.stop().await;
}

async fn an_error_a_panic_and_missing_results_are_errors_of_all(db: Db) {
    for (does, kind, message) in [
        ("fail", FailureKind::Error, "no server"),
        ("panic", FailureKind::Panic, "no index"),
        ("too few", FailureKind::Error, "returned 1 results for 2 jobs"),
    ] {
        let ids = enqueue(&db, [index(1, does), index(2, does)]).await;
        let (worker, mut events) = start(&db, 1);
        events.expect("1 2").await;
        for id in ids {
            let job = db.await_state(id, JobState::Retrying).await;
            let later = job.run_at - chrono::Utc::now() > chrono::TimeDelta::minutes(90);
            assert_eq!(later, does == "fail", "each job has the time of `retry_in`");
            let failure = db.failures(id).await.remove(0);
            assert_eq!(failure.kind, kind, "{does}");
            assert!(failure.message.contains(message), "{}", failure.message);
        }
        worker.stop().await;
    }
}

async fn arguments_that_do_not_decode_fail_alone(db: Db) {
    let mut conn = db.conn().await;
    conn.enqueue(index(1, "")).await;
    let broken = conn.enqueue(NewJob::raw("index", r#"{"no": "index"}"#)).await;
    let last = conn.enqueue(index(3, "")).await;
    let (worker, mut events) = start(&db, 1);
    events.expect("1 3").await;
    db.await_state(last, JobState::Completed).await;
    assert_eq!(db.failures(broken).await[0].kind, FailureKind::Undecodable);
    worker.stop().await;
}

async fn other_kinds_of_the_queue_run_one_by_one(db: Db) {
    let mut conn = db.conn().await;
    for number in 1..=2 {
        conn.enqueue(index(number, "")).await;
        conn.enqueue(Single).await;
    }
    let (worker, mut events) = start(&db, 1);
    for call in ["1 2", "single", "single"] {
        events.expect(call).await;
    }
    worker.stop().await;
}

fn gathered(index: &str, number: i64) -> Gathered {
    Gathered { index: index.to_owned(), number }
}

async fn jobs_with_another_value_run_in_another_batch(db: Db) {
    let jobs = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)];
    db.conn().await.enqueue_all(jobs.map(|(index, number)| gathered(index, number))).await;
    let (worker, mut events) = start(&db, 1);
    events.expect("a1 a2 a3").await;
    events.expect("b1 b2 b3").await;
    worker.stop().await;
}

/// The other slots are free, and do not begin batches of their own meanwhile.
async fn a_batch_that_is_not_full_waits_for_more_jobs(db: Db) {
    let (worker, mut events) = start(&db, 4);
    let mut conn = db.conn().await;
    for number in 1..=2 {
        conn.enqueue(gathered("a", number)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let begun = Instant::now();
    conn.enqueue(gathered("a", 3)).await;
    events.expect("a1 a2 a3").await;
    assert!(begun.elapsed() < Duration::from_millis(1900), "a full batch does not wait: {:?}", begun.elapsed());
    let begun = Instant::now();
    let last = conn.enqueue(gathered("b", 1)).await;
    events.expect("b1").await;
    assert!(begun.elapsed() >= Duration::from_secs(8), "it waits for its time: {:?}", begun.elapsed());
    db.await_state(last, JobState::Completed).await;
    worker.stop().await;
}

async fn a_worker_that_stops_does_not_wait_for_more_jobs(db: Db) {
    let (worker, mut events) = start(&db, 1);
    let id = db.conn().await.enqueue(gathered("a", 1)).await;
    db.await_state(id, JobState::Running).await;
    // The reply to the claim may still be under way. A worker that stops releases a job that it has just received.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    worker.stop().await;
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    events.expect("a1").await;
    db.await_state(id, JobState::Completed).await;
}

async fn a_batch_that_waits_for_more_jobs_follows_a_pause(db: Db) {
    let (worker, _events) = start(&db, 1);
    let id = db.conn().await.enqueue(gathered("a", 1)).await;
    db.await_state(id, JobState::Running).await;
    db.database().operator.pause_kind("gathered", "anna", None).await.unwrap();
    let job = db.await_state(id, JobState::Available).await;
    assert_eq!(job.attempt, 0);
    worker.stop().await;
}

async fn a_timeout_is_one_of_each_job(db: Db) {
    let ids = db.conn().await.enqueue_all((1..=3).map(|number| Slow { number })).await;
    let (worker, _events) = start(&db, 1);
    for id in ids {
        db.await_state(id, JobState::Discarded).await;
        assert_eq!(db.failures(id).await[0].kind, FailureKind::Timeout);
    }
    worker.stop().await;
}

async fn a_job_that_is_cancelled_meanwhile_ends_alone(db: Db) {
    let ids = enqueue(&db, [index(1, "wait"), index(2, ""), index(3, "")]).await;
    let (worker, mut events) = start(&db, 1);
    events.expect("1 2 3").await;
    db.database().operator.cancel(ids[1]).await.unwrap();
    db.await_state(ids[1], JobState::Cancelled).await;
    events.open(1);
    for id in [ids[0], ids[2]] {
        db.await_state(id, JobState::Completed).await;
    }
    worker.stop().await;
    assert_eq!(db.record(ids[1]).await.state, JobState::Cancelled, "its result was not written");
}

async fn a_worker_that_stops_releases_the_jobs_of_a_batch(db: Db) {
    let ids = enqueue(&db, [index(1, "wait"), index(2, "")]).await;
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Index]).state(probe).concurrency(1).grace(Duration::from_millis(100));
    let worker = Running::start(worker);
    events.expect("1 2").await;
    worker.stop().await;
    for id in ids {
        let job = db.record(id).await;
        assert_eq!((job.state, job.attempt), (JobState::Available, 0));
    }
}

support::on_each_database! {
    a_call_gets_at_most_so_many_jobs_in_their_order,
    each_job_has_a_result_of_its_own,
    an_error_a_panic_and_missing_results_are_errors_of_all,
    arguments_that_do_not_decode_fail_alone,
    other_kinds_of_the_queue_run_one_by_one,
    jobs_with_another_value_run_in_another_batch,
    a_batch_that_is_not_full_waits_for_more_jobs,
    a_worker_that_stops_does_not_wait_for_more_jobs,
    a_batch_that_waits_for_more_jobs_follows_a_pause,
    a_timeout_is_one_of_each_job,
    a_job_that_is_cancelled_meanwhile_ends_alone,
    a_worker_that_stops_releases_the_jobs_of_a_batch,
}
