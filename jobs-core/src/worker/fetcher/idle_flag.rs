//! The idle flag: while the storage has stored that the worker is idle, enqueues notify it.

use std::time::{Duration, Instant};

use super::Fetcher;

/// After being busy for this long, a worker clears its idle flag, so that enqueues do not wake it.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// A failure to write the idle flag is logged only if it lasts for longer than this. Short failures are normal, because
/// the heartbeat also locks the worker's row for a moment.
const IDLE_WARNING_AFTER: Duration = Duration::from_secs(5);

impl Fetcher {
    /// Clears the idle flag of a worker that has been busy for [`BUSY_AFTER`] or busy-polls, because enqueues need
    /// not wake it.
    pub(super) async fn clear_idle_flag(&mut self, busy_polling: bool) {
        let busy = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if self.is_idle() && (busy_polling || busy > BUSY_AFTER) && self.set_idle(false).await {
            self.idle = None;
        }
    }

    /// Whether the storage has stored the idle flag. A worker that was declared dead has another row since then.
    pub(super) fn is_idle(&self) -> bool {
        self.idle == Some(*self.shared.id.borrow())
    }

    /// Sets the idle flag. Returns whether the storage has stored it.
    pub(super) async fn become_idle(&mut self) -> bool {
        let id = *self.shared.id.borrow();
        self.idle = self.set_idle(true).await.then_some(id);
        self.idle_since = Instant::now();
        self.idle.is_some()
    }

    /// Writes the idle flag. Returns whether the storage has stored it.
    async fn set_idle(&mut self, idle: bool) -> bool {
        let id = *self.shared.id.borrow();
        let stored = self.shared.storage.set_idle(id, idle).await;
        self.idle_failing_since = stored.is_err().then(|| self.idle_failing_since.unwrap_or_else(Instant::now));
        if let Err(problem) = &stored
            && self.idle_failing_since.is_some_and(|since| since.elapsed() > IDLE_WARNING_AFTER)
        {
            self.idle_warning.report(problem);
        }
        stored.is_ok()
    }
}
