//! The phases of a shutdown.

use tokio_util::sync::CancellationToken;

pub(crate) struct Phases {
    draining: CancellationToken,
    /// A child of `draining`: a worker that drains is quiet, too.
    quiet: CancellationToken,
    stopping: CancellationToken,
    now: CancellationToken,
    time_is_up: CancellationToken,
}

impl Default for Phases {
    fn default() -> Self {
        let draining = CancellationToken::new();
        let quiet = draining.child_token();
        Self {
            draining,
            quiet,
            stopping: CancellationToken::new(),
            now: CancellationToken::new(),
            time_is_up: CancellationToken::new(),
        }
    }
}

impl Phases {
    /// The worker claims no more jobs. It ends if it also drains. Otherwise an operator has asked it to be quiet, and
    /// it continues with the jobs that run.
    pub(crate) fn quiet(&self) -> &CancellationToken {
        &self.quiet
    }

    /// The worker claims no more jobs, and ends.
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

    /// The time limit of each attempt is over, however long it is. Only tests end it.
    pub(crate) fn time_is_up(&self) -> &CancellationToken {
        &self.time_is_up
    }
}
