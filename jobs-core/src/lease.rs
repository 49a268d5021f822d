//! The right to work on a job, and what a worker gets with it.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::JobId;

/// One start of one worker process. A process that loses its registration goes on under a new id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// A new id; ids made later sort later.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to finish one attempt. Every write that moves a job out of `running` names it and must find it.
///
/// `number` grows with each lease ever granted on the job and never falls, also where the attempt is given back
/// (snooze, graceful shutdown); so two leases of a job are never equal, even of the same worker at the same attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// The fencing token: larger than that of every earlier lease of this job.
    pub number: i32,
    /// Who holds it.
    pub worker: WorkerId,
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {} of job {}", self.number, self.job)
    }
}

/// A job as a claim hands it out.
#[derive(Clone)]
pub struct ClaimedJob {
    /// The right to finish it.
    pub lease: Lease,
    /// The kind, which finds the handler.
    pub kind: String,
    /// The queue it was taken from.
    pub queue: String,
    /// Its priority.
    pub priority: i16,
    /// The arguments, as the bytes of their JSON text.
    pub args: Vec<u8>,
    /// Which attempt this is, from 1; counted at the claim.
    pub attempt: u16,
    /// Attempts before it is discarded.
    pub max_attempts: u16,
    /// When it was due.
    pub run_at: DateTime<Utc>,
    /// When it was first enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it was claimed, by the database's clock.
    pub claimed_at: DateTime<Utc>,
}

impl fmt::Debug for ClaimedJob {
    // Arguments may hold personal data or secrets: they never appear in debug output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedJob")
            .field("lease", &self.lease)
            .field("kind", &self.kind)
            .field("queue", &self.queue)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
