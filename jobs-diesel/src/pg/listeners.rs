//! Whether notifications reach the workers of this process.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the workers that should listen and do not.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    deaf: AtomicUsize,
}

impl Listeners {
    /// A worker does not listen until this is dropped.
    pub(super) fn deaf(&self) -> Deaf<'_> {
        self.deaf.fetch_add(1, Ordering::AcqRel);
        Deaf(self)
    }

    pub(super) fn are_all_listening(&self) -> bool {
        self.deaf.load(Ordering::Acquire) == 0
    }
}

pub(super) struct Deaf<'a>(&'a Listeners);

impl Drop for Deaf<'_> {
    fn drop(&mut self) {
        self.0.deaf.fetch_sub(1, Ordering::AcqRel);
    }
}
