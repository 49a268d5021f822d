//! Whether the attempt of a context has begun, how long its job waited, and how long its handler has run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::JobContext;
use crate::expiry::is_expired;

impl JobContext {
    /// Whether the caller may go on with this attempt. After that it cannot be withdrawn. Returns `false` if it was
    /// withdrawn: then somebody else releases the job.
    pub(crate) fn begin(&self) -> bool {
        *self.0.begun.get_or_init(|| true)
    }

    /// Withdraws the attempt, unless it has begun. The caller must release the job.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.begun.set(false).is_ok()
    }

    /// How long ago the job arrived here.
    pub(crate) fn held_for(&self) -> Duration {
        self.0.taken.elapsed()
    }

    /// Records that the handler is called now.
    pub(crate) fn start(&self, now: Instant) {
        // It is set only once, because each lease has its own context.
        let _ = self.0.started.set(now);
    }

    /// Whether the job must not start any more. The database's time is that of the claim, and what has passed here
    /// since.
    pub(crate) fn is_expired(&self) -> bool {
        let since = TimeDelta::from_std(self.held_for()).unwrap_or_default();
        self.0.job.start_by.is_some() && is_expired(&self.0.job, self.claimed_at() + since)
    }

    /// Records that the attempt has ended.
    pub(crate) fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// How long the handler has run, if it was called.
    pub(crate) fn running(&self) -> Option<Duration> {
        self.0.started.get().map(Instant::elapsed)
    }

    /// From `run_at` to the call of the handler, if it was called. Up to the claim by the database's clock, then by
    /// ours.
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
