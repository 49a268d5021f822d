//! Jobs that expire: a job is cancelled if its first attempt does not start in time.

use chrono::{DateTime, Utc};

use crate::error::{Failure, FailureKind};
use crate::failure::cancel_fingerprint;
use crate::lease::ClaimedJob;

/// The reason that is recorded when a job is cancelled because it expired.
pub const EXPIRED: &str = "expired: its first attempt did not start in time";

/// The failure that is recorded when a job is cancelled because it expired.
pub fn expired() -> Failure {
    let mut failure = Failure::new(FailureKind::Cancelled, EXPIRED);
    failure.fingerprint = cancel_fingerprint(EXPIRED);
    failure
}

/// Whether a claimed job has expired and must not start. `now` is the time of the database.
pub fn is_expired(job: &ClaimedJob, now: DateTime<Utc>) -> bool {
    job.start_by.is_some_and(|time| time <= now)
}
