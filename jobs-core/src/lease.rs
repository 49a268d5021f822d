//! The lease, which is a worker's right to a running job, and the job that a claim returns with it.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::flags::JobFlags;
use crate::job_id::JobId;
use crate::trace_context::Traceparent;

/// The id of a worker. Each worker gets a new id when it starts. A worker that was declared dead although it was alive
/// continues under a new id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// Generates a new id. Ids that are generated later sort after earlier ones.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A worker's right to finish one attempt of a job. Every finish names the lease, and changes nothing if the lease is
/// lost.
///
/// Each claim of the job increases `number`, and nothing ever decreases it: a snooze or a release decreases only the
/// number of the attempt. Two leases of a job are therefore never equal, even if the same worker holds them for the
/// same attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// The fencing token. It is larger than that of every earlier lease of this job.
    pub number: i32,
    /// The worker that holds the lease.
    pub worker: WorkerId,
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {} of job {}", self.number, self.job)
    }
}

/// A job as a claim returns it.
#[derive(Clone)]
pub struct ClaimedJob {
    /// The lease under which the attempt runs.
    pub lease: Lease,
    /// What its finish must know besides the lease.
    pub flags: JobFlags,
    /// The kind. It selects the handler.
    pub kind: String,
    /// The queue.
    pub queue: String,
    /// Its priority.
    pub priority: i16,
    /// The arguments, as the bytes of their JSON text.
    pub args: Vec<u8>,
    /// The number of this attempt, from 1. The claim has counted it.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
    /// When it was due.
    pub run_at: DateTime<Utc>,
    /// When it was first enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it was claimed, by the database's clock.
    pub claimed_at: DateTime<Utc>,
    /// The trace context of the enqueue.
    pub traceparent: Option<Traceparent>,
    /// If this is its first attempt: the attempt must start before this time, or the job is cancelled.
    pub start_by: Option<DateTime<Utc>>,
}

impl fmt::Debug for ClaimedJob {
    // Arguments may contain personal data or secrets, so they are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedJob")
            .field("lease", &self.lease)
            .field("flags", &self.flags)
            .field("kind", &self.kind)
            .field("queue", &self.queue)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
