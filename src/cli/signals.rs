//! SIGTERM and SIGINT: the first asks the worker to drain, the second to stop now.

use std::io;

/// The signals that ask a process to end.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes the signals over from now on: none that arrives later ends the process by itself.
    #[cfg(unix)]
    pub(super) fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one and names it.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Nothing to take over here: `next` does.
    #[cfg(not(unix))]
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a way to be told, the worker runs until the system ends it.
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
