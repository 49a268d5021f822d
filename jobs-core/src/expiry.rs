//! Jobs that expire: they are cancelled if their first attempt does not start in time.

use chrono::{DateTime, Utc};

use crate::error::{Failure, FailureKind};
use crate::failure::cancel_fingerprint;
use crate::lease::ClaimedJob;

/// The reason with which such a job is cancelled.
pub const EXPIRED: &str = "expired: its first attempt did not start in time";

/// The reason as it is recorded.
pub fn expired() -> Failure {
    let mut failure = Failure::new(FailureKind::Cancelled, EXPIRED);
    failure.fingerprint = cancel_fingerprint(EXPIRED);
    failure
}

/// Whether the claimed job must not start any more. `now` is the database's time.
pub fn is_expired(job: &ClaimedJob, now: DateTime<Utc>) -> bool {
    job.start_by.is_some_and(|time| time <= now)
}
