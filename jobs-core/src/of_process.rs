//! Recorders of a process, for what has no worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::recorder::{Recorder, Recorders};

/// A list of recorders, in a static.
pub(crate) struct OfProcess {
    /// Whether there are any, so that nothing takes the lock otherwise.
    is_used: AtomicBool,
    recorders: RwLock<Option<Recorders>>,
}

impl OfProcess {
    pub(crate) const fn new() -> Self {
        Self { is_used: AtomicBool::new(false), recorders: RwLock::new(None) }
    }

    pub(crate) fn add(&self, recorder: Arc<dyn Recorder>) {
        self.recorders.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().add(recorder);
        self.is_used.store(true, Ordering::Release);
    }

    /// Calls this if there are recorders.
    pub(crate) fn record(&self, report: impl FnOnce(&Recorders)) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        if let Some(recorders) = &*self.recorders.read().unwrap_or_else(PoisonError::into_inner) {
            report(recorders);
        }
    }
}
