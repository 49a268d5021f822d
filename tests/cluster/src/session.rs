//! One use of the cluster. The cluster runs while it has users, and stops with the last one, even on Ctrl-C.

use std::{
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, bail};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{Cluster, Postgres, Server};

/// One use of the cluster. It ends when it is dropped, or when the process is interrupted.
#[derive(Debug)]
pub struct Session {
    port: u16,
    ca: PathBuf,
    cluster: Shared,
    interrupted: Arc<AtomicBool>,
}

/// Taken by the first one to end the session: the drop or a signal.
type Shared = Arc<Mutex<Option<Cluster>>>;

impl Session {
    /// Starts the cluster, unless it runs.
    pub fn begin(dir: PathBuf, postgres: &Postgres) -> Result<Self> {
        Self::begin_with(dir, postgres, "")
    }

    /// The same, with these additional lines in its settings.
    pub fn begin_with(dir: PathBuf, postgres: &Postgres, settings: &str) -> Result<Self> {
        let shared = Shared::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
        let interrupted = Arc::<AtomicBool>::default();
        let (seen, flag) = (Arc::clone(&shared), Arc::clone(&interrupted));
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                flag.store(true, Ordering::SeqCst);
                end(&seen);
                process::exit(128 + signal);
            }
        });
        let cluster = Cluster::open(dir, postgres)?;
        let port = cluster.start(settings)?;
        let ca = cluster.server().authority();
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
        Ok(Self { port, ca, cluster: shared, interrupted })
    }

    /// The URL for `JOBS_TEST_DATABASE_URL` and `DATABASE_URL`.
    pub fn url(&self) -> String {
        Server::url(self.port)
    }

    /// Returns an error if a signal has ended the session. Then no further step may begin.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::SeqCst) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// The path of the certificate (PEM) of the authority that clients must trust.
    pub fn ca(&self) -> &Path {
        &self.ca
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end(&self.cluster);
    }
}

fn end(cluster: &Shared) {
    let mut cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cluster) = cluster.take()
        && let Err(error) = cluster.release()
    {
        eprintln!("warning: {error:#}");
    }
}
