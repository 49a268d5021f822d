//! Ctrl-C and SIGTERM end the measures, not the cleaning up.

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Does the work unless it is interrupted.
pub(crate) async fn or_stop(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; the databases of this run are dropped"),
        _ = terminate.recv() => bail!("asked to stop; the databases of this run are dropped"),
    }
}
