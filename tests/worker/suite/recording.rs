//! What recorders get to know, and what the metrics text says of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::prelude::*;
use diesel_jobs::enqueue::EnqueueEach as _;
use diesel_jobs::handler::{FailureKind, ResultExt as _};
use diesel_jobs::metrics::{AttemptOutcome, Event, MetricsText, Recorder, record_actions, record_enqueues};
use diesel_jobs::operator::{Action, JobFilter};
use diesel_jobs::{JobError, JobState, Outcome, job};
use support::{Conn, Db, Running, registry};

#[job]
async fn recorded_completes() {}

#[job(queue = "threads")]
fn recorded_on_a_thread() {}

#[job]
async fn recorded_fails() -> Result<(), JobError> {
    Err(std::io::Error::other("no")).fatal()
}

#[job(max_attempts = 1)]
async fn recorded_panics() {
    panic!("recorded")
}

#[job]
async fn recorded_cancels() -> Outcome {
    Outcome::Cancel("not needed".to_owned())
}

#[job(backoff = "fixed(1ms)")]
async fn recorded_fails_once(ctx: &diesel_jobs::JobContext) -> Result<(), JobError> {
    if ctx.attempt() == 1 { Err(JobError::msg("once")) } else { Ok(()) }
}

type Seen = (String, String, AttemptOutcome, Option<FailureKind>);

#[derive(Default)]
struct Collects {
    attempts: Mutex<Vec<(Seen, Duration, Duration)>>,
    operations: Mutex<Vec<&'static str>>,
    received: Mutex<usize>,
}

impl Recorder for Collects {
    fn record(&self, event: &Event<'_>) {
        match *event {
            Event::AttemptEnded { queue, kind, outcome, error, wait: Some(wait), run: Some(run) } => {
                let seen = (queue.to_owned(), kind.to_owned(), outcome, error);
                self.attempts.lock().unwrap().push((seen, wait, run));
            }
            Event::StorageOperation { operation, error: None, .. } => self.operations.lock().unwrap().push(operation),
            Event::Received { jobs, .. } => *self.received.lock().unwrap() += jobs,
            _ => {}
        }
    }
}

async fn each_attempt_is_recorded_with_its_outcome(db: Db) {
    let (collects, text) = (Arc::new(Collects::default()), Arc::new(MetricsText::new()));
    let jobs = [
        (db.enqueue(RecordedCompletes {}).await, JobState::Completed),
        (db.enqueue(RecordedOnAThread {}).await, JobState::Completed),
        (db.enqueue(RecordedFails {}).await, JobState::Discarded),
        (db.enqueue(RecordedPanics {}).await, JobState::Discarded),
        (db.enqueue(RecordedCancels {}).await, JobState::Cancelled),
        (db.enqueue(RecordedFailsOnce {}).await, JobState::Completed),
    ];
    let known = registry![
        RecordedCompletes,
        RecordedOnAThread,
        RecordedFails,
        RecordedPanics,
        RecordedCancels,
        RecordedFailsOnce
    ];
    let worker = Running::start(db.worker(known).recorder(collects.clone()).recorder(text.clone()));
    for (job, state) in jobs {
        db.await_state(job, state).await;
    }
    worker.stop().await;

    let mut seen: Vec<Seen> = collects.attempts.lock().unwrap().iter().map(|(seen, ..)| seen.clone()).collect();
    seen.sort_by(|one, other| (&one.1, one.2.as_str()).cmp(&(&other.1, other.2.as_str())));
    let expected = |queue: &str, kind: &str, outcome, error| (queue.to_owned(), kind.to_owned(), outcome, error);
    assert_eq!(
        seen,
        [
            expected("default", "recorded_cancels", AttemptOutcome::Cancelled, None),
            expected("default", "recorded_completes", AttemptOutcome::Completed, None),
            expected("default", "recorded_fails", AttemptOutcome::Discarded, Some(FailureKind::Error)),
            expected("default", "recorded_fails_once", AttemptOutcome::Completed, None),
            expected("default", "recorded_fails_once", AttemptOutcome::Retried, Some(FailureKind::Error)),
            expected("threads", "recorded_on_a_thread", AttemptOutcome::Completed, None),
            expected("default", "recorded_panics", AttemptOutcome::Discarded, Some(FailureKind::Panic)),
        ]
    );
    assert_eq!(*collects.received.lock().unwrap(), 7);
    let operations = collects.operations.lock().unwrap();
    for operation in ["check_schema", "register", "claim", "finish", "open_heartbeat", "deregister"] {
        assert!(operations.contains(&operation), "{operation} is missing in {operations:?}");
    }

    let text = text.render();
    for line in [
        "jobs_attempts_total{queue=\"threads\",kind=\"recorded_on_a_thread\",outcome=\"completed\"} 1",
        "jobs_attempts_total{queue=\"default\",kind=\"recorded_panics\",outcome=\"discarded\",error_type=\"panic\"} 1",
        "messaging_client_consumed_messages_total{queue=\"default\",kind=\"recorded_fails_once\"} 2",
        "messaging_process_duration_seconds_count{queue=\"default\",kind=\"recorded_fails_once\",error_type=\"error\"} 1",
        "jobs_wait_duration_seconds_count{queue=\"default\",kind=\"recorded_cancels\"} 1",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is missing in\n{text}");
    }
}

/// A delayed job has not waited until it is due.
async fn the_wait_is_counted_from_run_at(db: Db) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let collects = Arc::new(Collects::default());
    let job = db.enqueue(RecordedCompletes {}).await;
    // As if it had been enqueued a day ago, for now.
    let (table, day) = if db.is_postgres() { ("jobs.ready", "interval '1 day'") } else { ("jobs.job", "86400000000") };
    db.execute(&format!("update {table} set enqueued_at = enqueued_at - {day}")).await;
    let worker = Running::start(db.worker(registry![RecordedCompletes]).recorder(collects.clone()));
    db.await_state(job, JobState::Completed).await;
    worker.stop().await;
    let attempts = collects.attempts.lock().unwrap();
    let [(_, wait, run)] = attempts[..] else { panic!("{attempts:?}") };
    assert!(wait < DAY / 2 && run < DAY / 2, "waited {wait:?}, ran {run:?}");
}

#[job]
async fn recorded_number(number: i64) {
    let _ = number;
}

/// What happened in the process, without a worker.
#[derive(Default)]
struct OfProcess(Mutex<Vec<String>>);

impl Recorder for OfProcess {
    fn record(&self, event: &Event<'_>) {
        match *event {
            Event::Sent { queue, kind, jobs } => self.0.lock().unwrap().push(format!("{queue} {kind} {jobs}")),
            Event::OperatorAction { action, jobs } => self.0.lock().unwrap().push(format!("{action} {jobs}")),
            _ => {}
        }
    }
}

async fn enqueued_rows_and_actions_are_reported_to_recorders_of_the_process(db: Db) {
    let seen = Arc::<OfProcess>::default();
    record_enqueues(seen.clone());
    record_actions(seen.clone());
    // Other tests do the same in this process, with other numbers.
    let rows: u64 = if db.is_postgres() { 37 } else { 41 };
    db.execute(&format!(
        "create table recorded_source (id bigint primary key);
         insert into recorded_source with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) select i from n"
    ))
    .await;
    diesel::table! { recorded_source (id) { id -> BigInt, } }
    let each = || RecordedNumber::columns(recorded_source::id);
    let none = || recorded_source::table.filter(recorded_source::id.lt(0));
    match db.conn().await {
        Conn::Postgres(mut conn) => {
            recorded_source::table.enqueue_each(&mut *conn, each()).await.unwrap();
            none().enqueue_each(&mut *conn, each()).await.unwrap();
        }
        Conn::Sqlite(mut conn) => {
            recorded_source::table.enqueue_each(&mut *conn, each()).unwrap();
            none().enqueue_each(&mut *conn, each()).unwrap();
        }
    }
    let operator = &db.database().operator;
    let jobs = operator.list_all(&JobFilter::default(), 100).await.unwrap();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    operator.act(&Action::Reprioritise(3), &ids, "ada").await.unwrap();
    let id = operator.start_operation(&Action::Cancel, &JobFilter::default(), "ada").await.unwrap();
    while operator.step_operation(Some(id), 1000).await.unwrap().is_some() {}
    operator.act(&Action::Cancel, &ids, "ada").await.unwrap();
    let seen = seen.0.lock().unwrap();
    for event in [format!("default recorded_number {rows}"), format!("reprioritise {rows}"), format!("cancel {rows}")] {
        assert_eq!(seen.iter().filter(|seen| **seen == event).count(), 1, "{event}: {seen:?}");
    }
    assert!(!seen.iter().any(|event| event.ends_with(" 0")), "{seen:?}");
}

support::on_each_database! {
    enqueued_rows_and_actions_are_reported_to_recorders_of_the_process,
    each_attempt_is_recorded_with_its_outcome,
    the_wait_is_counted_from_run_at,
}
