//! One use of the cluster: it runs while anybody uses it, and stops with its last user, also on Ctrl-C.

use std::{
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{Cluster, Postgres};

pub(crate) struct Session {
    port: u16,
    ca: PathBuf,
    cluster: Shared,
}

/// Taken by whoever ends the session first: us, or a signal.
type Shared = Arc<Mutex<Option<Cluster>>>;

impl Session {
    pub(crate) fn begin(root: &Path, postgres: &Postgres) -> Result<Self> {
        let shared = Shared::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
        let seen = Arc::clone(&shared);
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                end(&seen);
                process::exit(128 + signal);
            }
        });
        let cluster = Cluster::open(root, postgres)?;
        let port = cluster.start()?;
        let ca = cluster.authority();
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
        Ok(Self { port, ca, cluster: shared })
    }

    /// As `JOBS_TEST_DATABASE_URL` has it.
    pub(crate) fn url(&self) -> String {
        Cluster::url(self.port)
    }

    /// The certificate of the authority that clients have to trust, PEM.
    pub(crate) fn ca(&self) -> &Path {
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
