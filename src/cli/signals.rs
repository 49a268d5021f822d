//! SIGTERM and SIGINT: the first one makes the worker drain, the second one makes it stop at once.

use super::exit::CliError;

/// The signals that ask a process to end.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Installs the handlers. From now on these signals no longer end the process by default.
    #[cfg(unix)]
    pub(super) fn install() -> Result<Self, CliError> {
        use tokio::signal::unix::{SignalKind, signal};
        let on = |kind| signal(kind).map_err(|error| CliError::failed(format!("listening for signals: {error}")));
        Ok(Self { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Does nothing here: `next` installs the handler.
    #[cfg(not(unix))]
    pub(super) fn install() -> Result<Self, CliError> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            // If the handler cannot be installed, the worker runs until the system ends it.
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
