//! What a handler can read: its states, its job, and the keys for external systems.

use std::sync::{Arc, Mutex};

use diesel_jobs::{Job as _, JobContext, JobError, JobState, Outcome, State, job};
use support::{Db, registry};

/// The contexts that the attempts had, one entry each.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<(JobContext, String)>>>);

#[derive(Clone)]
struct Greeting(&'static str);

/// Not `Clone`: a handler can only borrow it.
struct Answer(u64);

#[job(queue = "read_context", max_attempts = 4, backoff = "fixed(1ms)")]
async fn read_context(
    ctx: JobContext,
    State(recorded): State<Recorded>,
    State(greeting): State<Greeting>,
) -> Result<Outcome, JobError> {
    let answer = ctx.state::<Answer>().map_or(0, |answer| answer.0);
    assert!(ctx.state::<String>().is_none() && !ctx.is_cancelled());
    recorded.0.lock().unwrap().push((ctx.clone(), format!("{} {answer}", greeting.0)));
    match ctx.fencing_token() {
        1 => Err(JobError::msg("once more")),
        2 => Ok(Outcome::Snooze(std::time::Duration::from_millis(1))),
        _ => Ok(Outcome::Complete),
    }
}

async fn a_handler_sees_its_states_and_its_job(db: Db) {
    let recorded = Recorded::default();
    let one = db.enqueue(ReadContext {}.queue("else").tags(["red"]).max_attempts(9)).await;
    let other = db.enqueue(ReadContext {}).await;
    let worker = db.worker(registry![ReadContext]).state(recorded.clone()).state(Greeting("hello")).state(Answer(77));
    worker.declare_queue("else").build().unwrap().run_until_empty().await.unwrap();

    let recorded = recorded.0.lock().unwrap().clone();
    assert!(recorded.iter().all(|(_, text)| text == "hello 77"));
    let of = |id| recorded.iter().map(|(ctx, _)| ctx).filter(move |ctx| ctx.id() == id).collect::<Vec<_>>();
    for (id, queue, max_attempts) in [(one, "else", 9), (other, "read_context", 4)] {
        let attempts = of(id);
        let record = db.record(id).await;
        assert_eq!(record.state, JobState::Completed);
        // A failure, a snooze, and the end. The second and the third run are the same attempt.
        assert_eq!(attempts.iter().map(|ctx| ctx.attempt()).collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(attempts.iter().map(|ctx| ctx.fencing_token()).collect::<Vec<_>>(), [1, 2, 3]);
        for ctx in &attempts {
            assert_eq!((ctx.kind(), ctx.queue(), ctx.max_attempts()), ("read_context", queue, max_attempts));
            assert_eq!(ctx.enqueued_at(), record.enqueued_at);
            assert!(ctx.claimed_at() >= ctx.run_at());
            assert_eq!(ctx.idempotency_key(), attempts[0].idempotency_key());
        }
    }
    assert_ne!(of(one)[0].idempotency_key(), of(other)[0].idempotency_key());
}

async fn a_worker_without_a_state_that_a_job_takes_does_not_start(db: Db) {
    let error = db.worker(registry![ReadContext]).state(Recorded::default()).build().unwrap_err().to_string();
    for part in ["`read_context`", "context.rs:", "Greeting", ".state(..)"] {
        assert!(error.contains(part), "{error}");
    }
}

support::on_each_database! {
    a_handler_sees_its_states_and_its_job,
    a_worker_without_a_state_that_a_job_takes_does_not_start,
}
