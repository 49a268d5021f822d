//! The signals that ask a process to end: the first one makes the worker drain, the second one makes it stop at once.
//! On Unix these are SIGTERM, SIGINT, SIGQUIT, which some container images name as their `STOPSIGNAL`, and SIGHUP,
//! which comes when the terminal is closed. SIGUSR1 and SIGUSR2, which other workers understand, are logged and have no
//! other effect. On Windows the signals are what a console sends: Ctrl-C, Ctrl-Break, the close of its window, and, to
//! a service, the shutdown of the system.

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
    quit: Signal,
    /// `None`: `nohup` has started the process, which continues when its terminal is closed.
    hangup: Option<Signal>,
    user: [Signal; 2],
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
        let listen = |kind| signal(kind).map_err(failed);
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            hangup: if hangup_is_ignored() { None } else { Some(listen(SignalKind::hangup())?) },
            user: [listen(SignalKind::user_defined1())?, listen(SignalKind::user_defined2())?],
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
        let [user1, user2] = &mut self.user;
        loop {
            let ignored = tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.quit.recv() => return "SIGQUIT",
                Some(()) = received(self.hangup.as_mut()) => return "SIGHUP",
                _ = user1.recv() => "SIGUSR1",
                _ = user2.recv() => "SIGUSR2",
            };
            tracing::warn!(target: "diesel_jobs", { signal = ignored },
                "{ignored} is ignored: SIGTERM stops a worker, and `worker workers quiet ID` makes it claim no more jobs");
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

#[cfg(unix)]
async fn received(signal: Option<&mut Signal>) -> Option<()> {
    signal?.recv().await
}

/// Whether the process was started with SIGHUP ignored, which a handler would undo. Only Linux shows it.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

fn failed(error: std::io::Error) -> CliError {
    CliError::failed(format!("listening for signals: {error}"))
}
