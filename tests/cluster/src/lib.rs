//! A private PostgreSQL for tests, benchmarks and crashes: found or installed, and run in a directory of the workspace's
//! `target` for as long as it is needed.
//!
//! Never the machine's own server: another data directory, a free port, its own socket directory. It trusts every
//! local user (role `tester`, superuser), so it listens on the loopback interface alone.

#![allow(clippy::print_stderr, reason = "it says on a terminal what it runs")]

mod certificate;
mod cluster;
mod find;
mod install;
mod owner;
pub mod pgbouncer;
mod process;
pub mod run;
mod server;
mod session;

use std::path::PathBuf;

use anyhow::{Result, bail};

pub use self::{
    cluster::Cluster,
    server::{Server, Stop, place},
    session::Session,
};

/// The tests' cluster.
pub const TESTS: &str = "target/pg";
/// The benchmark's: tests that run meanwhile would be measured with it.
pub const BENCH: &str = "target/pg-bench";

/// What the set-up needs of PostgreSQL on this machine.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// The directory with `initdb`, `pg_ctl` and `postgres`.
    pub bin: PathBuf,
    /// Where libpq is, if its build script would not find it by itself.
    pub libpq: Option<PathBuf>,
}

/// Finds PostgreSQL and libpq, or installs them, or says what to install.
pub fn ensure() -> Result<Postgres> {
    if let Some(found) = look()? {
        return Ok(found);
    }
    install::run()?;
    find()
}

/// Finds PostgreSQL and libpq.
pub fn find() -> Result<Postgres> {
    match look()? {
        Some(found) => Ok(found),
        None => bail!("no PostgreSQL server, or no libpq to link with\n  to fix: {}", install::ADVICE),
    }
}

fn look() -> Result<Option<Postgres>> {
    let Some(bin) = find::binaries()? else { return Ok(None) };
    Ok(find::libpq(&bin).map(|libpq| Postgres { bin, libpq: libpq.into_dir() }))
}
