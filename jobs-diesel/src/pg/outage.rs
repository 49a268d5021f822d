//! Whether the server was away a short while ago. A crash of the server forgets claims, whose commits do not wait for the
//! disk, and with a claim its attempt. A job that crashes the server itself would run again and again at attempt 1: so for a
//! while after an outage claims wait for the disk, and such a job uses up its attempts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long after an outage. Longer than a server needs to come back, and its jobs to be claimed again.
const RECENT: Duration = Duration::from_secs(60);

/// When a connection of this process was last lost.
#[derive(Default)]
pub(crate) struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// A connection was lost, or there is none to be had.
    pub(crate) fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether one was lost within the last minute.
    pub(crate) fn is_recent(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|last| last.elapsed() < RECENT)
    }
}
