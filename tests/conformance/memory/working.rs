//! A worker runs jobs on the smallest storage.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs::prelude::*;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobState, Worker};
use diesel_jobs_core::{FailureKind, IntoNewJob as _};

use super::Memory;
use crate::bench::{enqueue, failures, record};
use crate::fixture::run;

#[job(max_attempts = 2, backoff = "fixed(1ms)")]
async fn fails_until(attempt: u16, ctx: JobContext) -> Result<(), JobError> {
    if ctx.attempt() < attempt { Err(JobError::msg("not yet")) } else { Ok(()) }
}

#[job]
async fn snoozes_once(ctx: JobContext) -> Outcome {
    if ctx.run_at() == ctx.enqueued_at() { Outcome::Snooze(Duration::from_millis(1)) } else { Outcome::Complete }
}

#[job]
fn blocks_a_thread() -> Outcome {
    Outcome::Cancel("no longer needed".to_owned())
}

#[job(max_attempts = 1)]
async fn panics() {
    panic!("a bug");
}

#[test]
fn a_worker_runs_jobs_until_none_is_left() {
    run::<Memory, _>(async |memory: Memory| {
        let jobs = [
            FailsUntil { attempt: 2 }.into_new_job(),
            FailsUntil { attempt: 9 }.into_new_job(),
            SnoozesOnce {}.into_new_job(),
            BlocksAThread {}.into_new_job(),
            Panics {}.into_new_job(),
        ];
        let mut ids = Vec::new();
        for job in jobs {
            ids.push(enqueue(&memory, job.unwrap()).await);
        }
        let registry =
            Registry::new().with::<FailsUntil>().with::<SnoozesOnce>().with::<BlocksAThread>().with::<Panics>();
        let worker =
            Worker::builder(Arc::new(memory.clone())).registry(registry).poll_interval(Duration::from_millis(5));
        let stats = worker.build().unwrap().run_until_empty().await.unwrap();
        assert_eq!((stats.completed, stats.retried, stats.snoozed), (2, 2, 1), "{stats:?}");
        assert_eq!((stats.cancelled, stats.discarded, stats.leases_lost), (1, 2, 0), "{stats:?}");

        let states = [
            (JobState::Completed, 2, Some(FailureKind::Error)),
            (JobState::Discarded, 2, Some(FailureKind::Error)),
            (JobState::Completed, 1, None),
            (JobState::Cancelled, 1, Some(FailureKind::Cancelled)),
            (JobState::Discarded, 1, Some(FailureKind::Panic)),
        ];
        for (id, expected) in ids.into_iter().zip(states) {
            let (job, newest) = (record(&memory, id).await, failures(&memory, id).await.pop());
            assert_eq!((job.state, job.attempt, newest.map(|failure| failure.kind)), expected);
        }
    });
}
