//! An attempt without a worker: a context for stored arguments, and the result of a registration's handler.

use std::sync::Arc;

use diesel_jobs::handler::Registered;
use diesel_jobs::worker::WorkerId;
use diesel_jobs::{JobContext, JobError, JobId, Outcome};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::{AnyConnection, ClaimedJob, Handler, Lease, States};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Returns the context of a first attempt with these stored arguments.
pub(crate) fn context<J: Registered>(args: &Value, states: States) -> JobContext {
    let now = chrono::Utc::now();
    let job = ClaimedJob {
        lease: Lease { job: JobId(7), number: 1, worker: WorkerId::generate() },
        flags: JobFlags::default(),
        kind: J::KIND.to_owned(),
        queue: "default".to_owned(),
        priority: 0,
        args: args.to_string().into_bytes(),
        attempt: 1,
        max_attempts: 25,
        run_at: now,
        enqueued_at: now,
        claimed_at: now,
        traceparent: None,
        start_by: None,
    };
    JobContext::new(job, CancellationToken::new(), Arc::new(states))
}

/// Runs a job that takes no connection.
pub(crate) async fn run<J: Registered>(args: &Value, states: States) -> Result<Outcome, JobError> {
    let ctx = context::<J>(args, states);
    match J::REGISTRATION.handler {
        Handler::Async(handle) => handle(ctx).await,
        Handler::Blocking(handle) => handle(ctx),
        transactional => panic!("{} asks for a connection: {transactional:?}", J::KIND),
    }
}

/// Runs a job that takes a connection.
pub(crate) async fn run_with<J: Registered>(connection: AnyConnection<'_>, args: &Value) -> Result<Outcome, JobError> {
    let ctx = context::<J>(args, States::default());
    match J::REGISTRATION.handler {
        Handler::AsyncTransactional(handle) => handle(connection, ctx).await,
        Handler::BlockingTransactional(handle) => handle(connection, ctx),
        plain => panic!("{} asks for no connection: {plain:?}", J::KIND),
    }
}
