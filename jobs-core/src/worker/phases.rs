//! The phases of a shutdown.

use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Phases {
    draining: CancellationToken,
    stopping: CancellationToken,
    now: CancellationToken,
}

impl Phases {
    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Handlers see this token as their own cancellation.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(crate) fn now(&self) -> &CancellationToken {
        &self.now
    }
}
