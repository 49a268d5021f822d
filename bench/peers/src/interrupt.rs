//! Ctrl-C and SIGTERM end the measures. The databases are dropped nevertheless.

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the work. Returns an error if it is interrupted.
pub(crate) async fn or_stop(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; the databases of this run are dropped"),
        _ = terminate.recv() => bail!("asked to stop; the databases of this run are dropped"),
    }
}
