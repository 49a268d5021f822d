//! The settings of operators that this worker follows now. The settings watcher replaces them, and the other parts read
//! them.

use std::sync::{Arc, PoisonError, RwLock};

use crate::handler::Registration;
use crate::outcome::{Kept, Retention};
use crate::overrides::Overrides;
use crate::registry::Registry;

/// The overrides, and what follows from them.
pub(crate) struct Live {
    /// What the worker was started with.
    retention: Retention,
    all_kinds: Arc<[String]>,
    now: RwLock<Now>,
    /// Held while the overrides are read and replaced, so that an earlier answer does not replace a later one.
    pub(crate) reading: tokio::sync::Mutex<()>,
}

struct Now {
    overrides: Arc<Overrides>,
    /// The kinds of this worker that are not paused.
    kinds: Arc<[String]>,
}

impl Live {
    pub(super) fn new(registry: &Registry, retention: Retention) -> Self {
        let all_kinds: Arc<[String]> = registry.kinds().into();
        let now = Now { overrides: Arc::default(), kinds: all_kinds.clone() };
        Self { retention, all_kinds, now: RwLock::new(now), reading: tokio::sync::Mutex::default() }
    }

    /// Replaces the overrides. Returns the earlier ones.
    pub(crate) fn replace(&self, new: Arc<Overrides>) -> Arc<Overrides> {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if now.overrides.paused_kinds != new.paused_kinds {
            now.kinds = match new.paused_kinds.is_empty() {
                true => self.all_kinds.clone(),
                false => self.all_kinds.iter().filter(|kind| !new.paused_kinds.contains(*kind)).cloned().collect(),
            };
        }
        std::mem::replace(&mut now.overrides, new)
    }

    pub(super) fn overrides(&self) -> Arc<Overrides> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).overrides.clone()
    }

    /// The kinds that claims ask for.
    pub(crate) fn kinds(&self) -> Arc<[String]> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).kinds.clone()
    }

    /// How long ended jobs of this kind are kept.
    pub(crate) fn kept(&self, registration: &Registration) -> Kept {
        let kept = self.retention.kept(registration.options.retain);
        self.now.read().unwrap_or_else(PoisonError::into_inner).overrides.retention.apply(registration.kind, kept)
    }
}
