//! The private cluster: a server that runs while anybody uses it, stopped by its last user.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use anyhow::{Context, Result};

use crate::{Postgres, Server, Stop};

/// A server that several programs use together.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    /// Where locks and notes are, such as `target/pg`.
    desk: PathBuf,
    /// Held while the server is being started or stopped.
    change: File,
    /// Held, shared, by everybody who uses the server.
    users: File,
}

impl Cluster {
    /// The cluster of this directory.
    pub fn open(desk: PathBuf, postgres: &Postgres) -> Result<Self> {
        let server = Server::at(&desk, postgres)?;
        let lock = |name: &str| {
            File::options().create(true).append(true).open(desk.join(name)).with_context(|| {
                format!("cannot lock {0}/{name}\n  to fix: remove {0} (somebody else's?)", desk.display())
            })
        };
        Ok(Self { change: lock("change.lock")?, users: lock("users.lock")?, server, desk })
    }

    /// The server, to look at.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Makes sure that it runs, counts us as a user of it, and returns its port. One that is started has these further lines
    /// in its settings.
    pub fn start(&self, settings: &str) -> Result<u16> {
        self.change.lock()?;
        self.users.lock_shared()?;
        let port = match self.server.running()? {
            Some(port) => port,
            None => {
                self.server.prepare()?;
                self.server.launch(None, settings)?
            }
        };
        self.change.unlock()?;
        Ok(port)
    }

    /// Whether it shall run on when its last user is gone.
    pub fn keep(&self, yes: bool) -> Result<()> {
        let mark = self.desk.join("keep");
        if yes {
            fs::write(&mark, "`cargo xtask pg stop` removes this file\n")?;
        } else if mark.exists() {
            fs::remove_file(&mark)?;
        }
        Ok(())
    }

    /// Ends our use of it, and stops it unless others use it or it was started to stay.
    pub fn release(&self) -> Result<()> {
        if !self.desk.join("keep").exists() {
            self.stop()?;
        }
        Ok(())
    }

    /// Stops it unless others use it; whether it is stopped.
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
