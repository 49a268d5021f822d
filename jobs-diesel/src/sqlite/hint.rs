//! Enqueues of this process tell its listeners to look at once. It is only a hint: the transaction may be rolled back, or
//! write to another file, and then the look finds nothing.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The number of enqueues so far.
static ENQUEUES: Mutex<u64> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

/// Jobs were inserted, and perhaps committed.
pub(super) fn enqueued() {
    let mut enqueues = ENQUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    *enqueues = enqueues.wrapping_add(1);
    drop(enqueues);
    CHANGED.notify_all();
}

/// Waits for an enqueue after the `seen`th, at most for this long; answers the number of enqueues now.
pub(super) fn wait(seen: u64, longest: Duration) -> u64 {
    let enqueues = ENQUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let (enqueues, _) = CHANGED
        .wait_timeout_while(enqueues, longest, |enqueues| *enqueues == seen)
        .unwrap_or_else(PoisonError::into_inner);
    *enqueues
}
