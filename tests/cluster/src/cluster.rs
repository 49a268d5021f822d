//! The private cluster: a server that runs while any program uses it. Its last user stops it.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use anyhow::{Context, Result};

use crate::{Postgres, Server, Stop};

/// A server that several programs share.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    /// The directory of locks and marks, such as `target/pg`.
    dir: PathBuf,
    /// Locked while the server is being started or stopped.
    change: File,
    /// Locked in shared mode by every program that uses the server.
    users: File,
}

impl Cluster {
    /// Opens the cluster of this directory. Only the benchmark's databases are always on the disk.
    pub fn open(dir: PathBuf, postgres: &Postgres) -> Result<Self> {
        let mut server = Server::at(&dir, postgres)?.with_statistics();
        if !dir.ends_with(crate::BENCH) {
            server = server.in_memory().in_german();
        }
        if dir.ends_with(crate::TRANSLATED) {
            server = server.sorting_as_in_german();
        }
        let lock = |name: &str| {
            File::options().create(true).append(true).open(dir.join(name)).with_context(|| {
                format!("cannot lock {0}/{name}\n  to fix: remove {0} (somebody else's?)", dir.display())
            })
        };
        Ok(Self { change: lock("change.lock")?, users: lock("users.lock")?, server, dir })
    }

    /// The server, for queries of its state.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Starts the server if it does not run, registers this program as a user, and returns the port. A server that is
    /// started gets `settings` as additional lines in its settings.
    pub fn start(&self, settings: &str) -> Result<u16> {
        self.change.lock()?;
        self.users.lock_shared()?;
        let port = match self.server.running()? {
            Some(port) => port,
            None => {
                self.server.prepare()?;
                self.server.launch(None, &(settings.to_owned() + self.of_benchmarks()))?
            }
        };
        self.change.unlock()?;
        Ok(port)
    }

    /// The hand-written side of a benchmark does not encrypt, so the server does not offer it to the other side. It
    /// counts the statements of the databases that ask for it alone, because counting takes time.
    fn of_benchmarks(&self) -> &'static str {
        match self.dir.ends_with(crate::BENCH) {
            true => "\nssl = off\ncompute_query_id = off\npg_stat_statements.track = none",
            false => "",
        }
    }

    /// Sets whether the server continues to run after its last user.
    pub fn keep(&self, yes: bool) -> Result<()> {
        let mark = self.dir.join("keep");
        if yes {
            fs::write(&mark, "`cargo xtask pg stop` removes this file\n")?;
        } else if mark.exists() {
            fs::remove_file(&mark)?;
        }
        Ok(())
    }

    /// Ends this program's use. Stops the server, unless other programs use it or it was started to stay.
    pub fn release(&self) -> Result<()> {
        if !self.dir.join("keep").exists() {
            self.stop()?;
        }
        Ok(())
    }

    /// Stops the server, unless other programs use it. Returns whether it is stopped.
    pub fn stop(&self) -> Result<bool> {
        self.change.lock()?;
        self.users.unlock()?;
        let alone = self.users.try_lock().is_ok();
        if alone && self.server.running()?.is_some() {
            self.server.halt(Stop::Fast)?;
        }
        self.users.unlock()?;
        self.change.unlock()?;
        Ok(alone)
    }
}
