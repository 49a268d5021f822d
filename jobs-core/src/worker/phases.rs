//! The phases of a shutdown.

use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Phases {
    draining: CancellationToken,
    stopping: CancellationToken,
    now: CancellationToken,
}

impl Phases {
    /// The worker claims no more jobs.
    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// The worker has asked its handlers to stop. Each handler has its own token, which is cancelled at the same time.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Attempts end without their handlers.
    pub(crate) fn now(&self) -> &CancellationToken {
        &self.now
    }
}
