//! A server of one test, which the test may stop, or whose settings differ.

use std::{env, fs, ops::Deref, path::Path};

use anyhow::{Context as _, Result};

use crate::{Postgres, Server, Stop};

/// A server of one test. It is stopped when the test has ended.
#[derive(Debug)]
pub struct Own(Server);

impl Own {
    /// The server of this directory, which must exist for longer. Nothing is created or started yet.
    pub fn at(dir: &Path) -> Result<Self> {
        let bin = env::var_os("JOBS_TEST_PG_BIN").context("JOBS_TEST_PG_BIN; `cargo xtask test` sets it")?.into();
        Ok(Self(Server::at(dir, &Postgres { bin, libpq: None })?.quiet()))
    }

    /// Starts it on a free port, and asks every role except the tests' superuser for a password (SCRAM).
    pub fn launch_with_passwords(&self) -> Result<u16> {
        self.prepare()?;
        let rules =
            "local all tester trust\nhost all tester 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(self.home().join("data/pg_hba.conf"), rules)?;
        self.launch(None, "")
    }
}

impl Deref for Own {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.halt(Stop::Immediate);
    }
}
