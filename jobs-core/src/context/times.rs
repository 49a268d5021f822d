//! How long the job of a context waited, and how long its handler has run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::JobContext;

impl JobContext {
    /// Records that the handler is called now.
    pub(crate) fn start(&self, now: Instant) {
        // It is set only once, because each lease has its own context.
        let _ = self.0.started.set(now);
    }

    /// How long the handler has run, if it was called.
    pub(crate) fn running(&self) -> Option<Duration> {
        self.0.started.get().map(Instant::elapsed)
    }

    /// From `run_at` to the call of the handler, if it was called. Up to the claim by the database's clock, then by ours.
    pub(crate) fn waited(&self) -> Option<Duration> {
        let started = self.0.started.get()?;
        let until_claim = (self.claimed_at() - self.run_at()).to_std().unwrap_or_default();
        Some(until_claim + started.saturating_duration_since(self.0.taken))
    }

    /// Marks the attempt as logged for its long time. Returns `true` at the first call.
    pub(crate) fn mark_long(&self) -> bool {
        !self.0.long.swap(true, Ordering::Relaxed)
    }
}
