//! A server of one test, which the test may stop.

use std::{env, ops::Deref, path::Path};

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
