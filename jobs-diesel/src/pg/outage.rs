//! Whether the server was unreachable within the last minute. The commits of claims do not wait for the disk. So a
//! crash of the server may undo claims, and with each claim the attempt that it counted. A job that crashes the server
//! itself would run repeatedly at attempt 1. For this reason, claims wait for the disk for a while after an
//! outage, so that such a job uses up its attempts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long claims wait for the disk after an outage. A server that comes back, and the next claims, need less time.
const RECENT: Duration = Duration::from_secs(60);

/// When a connection of this process was last lost.
#[derive(Default)]
pub(crate) struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// Records that a connection was lost or could not be opened.
    pub(crate) fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a connection was lost within the last minute.
    pub(crate) fn is_recent(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|last| last.elapsed() < RECENT)
    }
}
