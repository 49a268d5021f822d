//! The signals that ask a process to end: the first one makes the worker drain, the second one makes it stop at once.
//! On Unix these are SIGTERM and SIGINT. On Windows they are what a console sends: Ctrl-C, Ctrl-Break, the close of its
//! window, and, to a service, the shutdown of the system.

use super::exit::CliError;

#[cfg(unix)]
use tokio::signal::unix::Signal;
#[cfg(windows)]
use tokio::signal::windows::{self, CtrlBreak, CtrlC, CtrlClose, CtrlShutdown};

/// The signals that ask a process to end.
#[cfg(unix)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// The signals that ask a process to end.
#[cfg(windows)]
pub(super) struct Signals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    close: CtrlClose,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// Installs the handlers. From now on these signals no longer end the process by default.
    #[cfg(unix)]
    pub(super) fn install() -> Result<Self, CliError> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    /// Installs the handlers. From now on Ctrl-C and Ctrl-Break no longer end the process by default. After the others
    /// Windows ends it some seconds later in any case.
    #[cfg(windows)]
    pub(super) fn install() -> Result<Self, CliError> {
        Ok(Self {
            interrupt: windows::ctrl_c().map_err(failed)?,
            terminate: windows::ctrl_break().map_err(failed)?,
            close: windows::ctrl_close().map_err(failed)?,
            shutdown: windows::ctrl_shutdown().map_err(failed)?,
        })
    }

    /// Waits for the next signal and returns its name.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Waits for the next signal and returns its name.
    #[cfg(windows)]
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "Ctrl-Break",
            _ = self.close.recv() => "the close of the console",
            _ = self.shutdown.recv() => "the shutdown of the system",
        }
    }
}

fn failed(error: std::io::Error) -> CliError {
    CliError::failed(format!("listening for signals: {error}"))
}
