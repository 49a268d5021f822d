//! Batches: one call of a handler for several jobs, with a result, a lease and retries for each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_jobs::handler::{BatchContext, BatchHandled, FailureKind, HandleBatch};
use diesel_jobs::prelude::*;
use diesel_jobs::{JobId, JobState, NewJob, WorkerBuilder};
use support::{Db, Events, Probe, Rounds, Running, registry, until};

/// What the handler does with a job. Each job has another number.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 4), max_attempts = 5, backoff = "fixed(1h)", timeout = "10m")]
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

/// A job with its last attempt would run alone.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 4), max_attempts = 2, backoff = "fixed(1h)", timeout = "1h")]
struct Slow {
    number: i64,
}

impl HandleBatch for Slow {
    async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        let probe: &Probe = ctx.state().expect("the tests give one");
        let numbers: Vec<String> = jobs.iter().map(|job| job.number.to_string()).collect();
        probe.say(&ctx.jobs()[0], numbers.join(" "));
        std::future::pending().await
    }
}

/// How long a batch waits for more jobs: the longest time that a kind may ask for.
const WAIT: Duration = Duration::from_secs(10);
/// If the machine stands still for the time that a batch waits, nothing is known, and a test tries again.
const TRIES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Jobs with the same index run together.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 3, wait = "10s", by(index)))]
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

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 3, wait = "1s"))]
struct WaitsASecond {}

impl HandleBatch for WaitsASecond {
    async fn handle(_: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        let probe: &Probe = ctx.state().expect("the tests give one");
        probe.say(&ctx.jobs()[0], "its time is over");
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

fn worker(db: &Db, slots: usize) -> (WorkerBuilder, Events) {
    let (probe, events) = Probe::new();
    (db.worker(registry![Index, Slow, Gathered, WaitsASecond, Single]).state(probe).slots(slots), events)
}

fn start(db: &Db, slots: usize) -> (Running, Events) {
    let (worker, events) = worker(db, slots);
    (Running::start(worker), events)
}

/// Starts a worker with one slot and enqueues a job. Returns when its batch waits for more jobs.
async fn start_waiting(db: &Db) -> (Running, Events, Arc<Rounds>, JobId) {
    let (worker, events) = worker(db, 1);
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(worker.recorder(rounds.clone()));
    let id = db.conn().await.enqueue(gathered("a", 1)).await;
    until("the claim", async || (worker.handle().stats().claimed == 1).then_some(())).await;
    // Its only slot is taken, so the worker polls only for a batch that waits.
    rounds.more("next_due", 1).await;
    (worker, events, rounds, id)
}

async fn a_call_gets_at_most_so_many_jobs_in_their_order(db: Db) {
    let ids = enqueue(&db, (1..=10).map(|number| index(number, ""))).await;
    let (worker, mut events) = start(&db, 1);
    // The first claim is for one full batch. The worker may prefetch few jobs after that, and they do not wait for
    // others.
    events.expect("1 2 3 4").await;
    let mut calls = Vec::new();
    while calls.iter().map(Vec::len).sum::<usize>() < 6 {
        calls
            .push(events.next().await.text.split(' ').map(|number| number.parse::<i64>().unwrap()).collect::<Vec<_>>());
    }
    assert!(calls.iter().all(|call| call.len() <= 4), "{calls:?}");
    assert_eq!(calls.concat(), (5..=10).collect::<Vec<_>>());
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

async fn all_have_ended(db: &Db) {
    db.await_number(0, "select count(*) as number from jobs.job where finished_at is null").await;
}

async fn jobs_with_another_value_run_in_another_batch(db: Db) {
    let (worker, mut events) = start(&db, 1);
    for index in TRIES {
        let (begun, other) = (Instant::now(), index.to_uppercase());
        let jobs = (1..=3).flat_map(|number| [gathered(index, number), gathered(&other, number)]);
        db.conn().await.enqueue_all(jobs.collect::<Vec<_>>()).await;
        let calls = [events.next().await.text, events.next().await.text];
        if begun.elapsed() < WAIT {
            assert_eq!(calls, [index, &other].map(|index| format!("{index}1 {index}2 {index}3")));
            worker.stop().await;
            return;
        }
        all_have_ended(&db).await;
        events.rest();
    }
    panic!("the batches waited for their time although they were full");
}

/// The other slots are free, and do not begin batches of their own meanwhile.
async fn a_batch_that_is_not_full_waits_for_more_jobs(db: Db) {
    let (worker, mut events) = worker(&db, 4);
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(worker.recorder(rounds.clone()));
    for index in TRIES {
        let begun = Instant::now();
        for number in 1..=2 {
            let id = db.enqueue(gathered(index, number)).await;
            db.await_state(id, JobState::Running).await;
            // The batch waits when the worker has heard of its job, and polls again.
            rounds.more("next_due", 5).await;
        }
        db.enqueue(gathered(index, 3)).await;
        let call = events.next().await.text;
        if begun.elapsed() < WAIT {
            assert_eq!(call, format!("{index}1 {index}2 {index}3"));
            worker.stop().await;
            return;
        }
        all_have_ended(&db).await;
        events.rest();
    }
    panic!("a full batch waited for its time");
}

async fn a_batch_that_does_not_become_full_runs_when_its_time_is_over(db: Db) {
    let begun = Instant::now();
    let (worker, mut events) = start(&db, 4);
    let id = db.enqueue(WaitsASecond {}).await;
    events.expect("its time is over").await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "it waits for its time: {:?}", begun.elapsed());
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
}

async fn a_worker_that_stops_does_not_wait_for_more_jobs(db: Db) {
    for _ in TRIES {
        let begun = Instant::now();
        let (worker, mut events, _, id) = start_waiting(&db).await;
        worker.stop().await;
        let took = begun.elapsed();
        events.expect("a1").await;
        db.await_state(id, JobState::Completed).await;
        if took < WAIT {
            return;
        }
    }
    panic!("the batch waited for its time");
}

/// The end of the worker ends the wait here.
async fn a_batch_that_waits_for_more_jobs_follows_a_pause(db: Db) {
    let operator = &db.database().operator;
    for _ in TRIES {
        let begun = Instant::now();
        let (worker, mut events, rounds, id) = start_waiting(&db).await;
        operator.pause_kind("gathered", "anna", None).await.unwrap();
        rounds.settings().await;
        worker.stop().await;
        if events.rest().is_empty() {
            let job = db.record(id).await;
            assert_eq!((job.state, job.attempt), (JobState::Available, 0));
            return;
        }
        assert!(begun.elapsed() >= WAIT, "the handler was called in spite of the pause");
        operator.resume_kind("gathered", "anna").await.unwrap();
    }
    panic!("no batch waited for so long that its kind could be paused");
}

async fn a_timeout_is_one_of_each_job(db: Db) {
    let ids = db.conn().await.enqueue_all((1..=3).map(|number| Slow { number })).await;
    let (worker, mut events) = start(&db, 1);
    events.expect("1 2 3").await;
    worker.handle().end_time_limits();
    for id in ids {
        db.await_state(id, JobState::Retrying).await;
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
    let worker = db.worker(registry![Index]).state(probe).slots(1).grace_period(Duration::from_millis(100));
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
    a_batch_that_does_not_become_full_runs_when_its_time_is_over,
    a_worker_that_stops_does_not_wait_for_more_jobs,
    a_batch_that_waits_for_more_jobs_follows_a_pause,
    a_timeout_is_one_of_each_job,
    a_job_that_is_cancelled_meanwhile_ends_alone,
    a_worker_that_stops_releases_the_jobs_of_a_batch,
}
