//! The arguments of a waiting job as a value. Those of an earlier version are upgraded.

use std::sync::Arc;

use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::{ClaimedJob, JobContext, JobError, JobRecord, Lease, Registered, States, WorkerId};

/// Whether this is the kind of `J`, or that of an earlier version or of an alias of it.
pub(super) fn is_of<J: Registered>(kind: &str) -> bool {
    J::REGISTRATION.kinds().any(|one| one == kind)
}

/// The arguments, as the job's handler would get them.
pub(super) fn decoded<J: Registered>(job: &JobRecord) -> Result<J, JobError> {
    let claimed = ClaimedJob {
        lease: Lease { job: job.id, number: 1, worker: WorkerId::generate() },
        flags: JobFlags(job.flags),
        kind: job.kind.clone(),
        queue: job.queue.clone(),
        priority: job.priority,
        args: job.args.clone().into_bytes(),
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        run_at: job.run_at,
        enqueued_at: job.enqueued_at,
        claimed_at: job.run_at,
        traceparent: None,
        start_by: None,
    };
    J::decode(&JobContext::for_test(claimed, Arc::new(States::default()), job.run_at, J::OPTIONS.secrets))
}
