//! After an enqueue of this process its listeners check for commits at once. This is only a hint: the transaction may
//! be rolled back, or write to another file. Then the check finds nothing.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The number of enqueues so far.
static ENQUEUES: Mutex<u64> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

/// Tells the listeners that jobs were inserted. The jobs may not be committed yet.
pub(super) fn enqueued() {
    let mut enqueues = ENQUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    *enqueues = enqueues.wrapping_add(1);
    drop(enqueues);
    CHANGED.notify_all();
}

/// Waits until the number of enqueues is not `seen` any more, at most for `longest`. Returns the number of enqueues.
pub(super) fn wait(seen: u64, longest: Duration) -> u64 {
    let enqueues = ENQUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let (enqueues, _) = CHANGED
        .wait_timeout_while(enqueues, longest, |enqueues| *enqueues == seen)
        .unwrap_or_else(PoisonError::into_inner);
    *enqueues
}
