//! The paused kinds, for the check of each claimed job. Usually there are none, and then the check costs one load.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

#[derive(Debug, Default)]
pub(super) struct PausedKinds {
    any: AtomicBool,
    kinds: RwLock<BTreeSet<String>>,
}

impl PausedKinds {
    pub(super) fn contain(&self, kind: &str) -> bool {
        self.any.load(Ordering::Acquire) && self.kinds.read().unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    pub(super) fn set(&self, kinds: &BTreeSet<String>) {
        *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = kinds.clone();
        self.any.store(!kinds.is_empty(), Ordering::Release);
    }
}
