//! A private PostgreSQL for tests, benchmarks and crashes. It is found or installed, and runs in a directory of the
//! workspace's `target` as long as it is needed.
//!
//! It is never the machine's own server: it has another data directory, a free port, and its own socket directory. It
//! trusts every local user (role `tester`, superuser). So it listens only on the loopback interface.

#![allow(clippy::print_stderr, reason = "it says on a terminal what it runs")]

pub mod browser;
mod certificate;
mod cluster;
mod find;
mod home;
mod install;
mod memory;
mod own;
mod owner;
pub mod pgbouncer;
mod process;
mod roles;
pub mod run;
mod server;
mod session;
pub mod tmux;

use std::path::PathBuf;

use anyhow::{Result, bail};

pub use self::{
    cluster::Cluster,
    home::place,
    own::Own,
    roles::drop_roles,
    server::{Server, Stop},
    session::Session,
};

/// The directory of the tests' cluster.
pub const TESTS: &str = "target/pg";
/// The directory of a cluster that translates its messages and sorts as in another language.
pub const TRANSLATED: &str = "target/pg-translated";
/// The directory of the benchmark's cluster. On the same cluster, tests that run meanwhile would affect the
/// measurements.
pub const BENCH: &str = "target/pg-bench";

/// The parts of PostgreSQL that are used.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// The directory with `initdb`, `pg_ctl` and `postgres`.
    pub bin: PathBuf,
    /// The directory of libpq, if its build script would not find it.
    pub libpq: Option<PathBuf>,
}

/// Finds PostgreSQL and libpq, or installs them. An error says what to install.
pub fn ensure() -> Result<Postgres> {
    if let Some(found) = detect()? {
        return Ok(found);
    }
    install::run()?;
    find()
}

/// Finds PostgreSQL and libpq.
pub fn find() -> Result<Postgres> {
    match detect()? {
        Some(found) => Ok(found),
        None => bail!("no PostgreSQL server, or no libpq to link with\n  to fix: {}", install::ADVICE),
    }
}

fn detect() -> Result<Option<Postgres>> {
    let Some(bin) = find::binaries()? else { return Ok(None) };
    Ok(find::libpq(&bin).map(|libpq| Postgres { bin, libpq: libpq.into_dir() }))
}
