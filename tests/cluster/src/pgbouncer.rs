//! PgBouncer: it is found on the machine, or built from a Debian release with a known checksum.
//!
//! Before 1.21 it does not support prepared statements in transaction mode, and stable distributions have older
//! versions. So the package manager installs only what is needed to build it.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::install::{self, Manager};
use crate::run::{capture, run_with_retries, succeeds};

/// The first version with prepared statements in transaction mode.
const OLDEST: (u32, u32) = (1, 21);
const VERSION: &str = "1.24.1";
const CHECKSUM: &str = "da72a3aba13072876d055a3e58dd4aba4a5de4ed6148e73033185245598fd3e0";
/// The URLs of the release. Each answer is checked against the checksum.
const SOURCES: [&str; 2] = [
    "https://deb.debian.org/debian/pool/main/p/pgbouncer/pgbouncer_1.24.1.orig.tar.gz",
    "https://www.pgbouncer.org/downloads/files/1.24.1/pgbouncer-1.24.1.tar.gz",
];
/// Built without encryption, because it connects programs of one machine.
const FLAGS: [&str; 2] = ["--without-openssl", "--without-cares"];
const ADVICE: &str = "install PgBouncer 1.21 or newer so that `pgbouncer` is on the PATH; or, for it to be built here, a C compiler, \
    make, pkg-config and libevent (`apt-get install gcc make pkg-config libevent-dev`, `brew install pkgconf libevent`)";
const LIBEVENT: [Manager; 3] = [
    (
        "apt-get",
        true,
        &["apt-get update", "apt-get install -y --no-install-recommends gcc make pkg-config libevent-dev"],
    ),
    ("dnf", true, &["dnf install -y gcc make pkgconf libevent-devel"]),
    ("brew", false, &["brew install pkgconf libevent"]),
];

/// Returns the path of the program: on the PATH, or built in this directory, now or before. An error says why there is
/// none.
pub fn ensure(dir: &Path) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&path).map(|dir| dir.join("pgbouncer")).find(|program| is_usable(program)) {
        return Ok(found);
    }
    let program = dir.join(format!("pgbouncer-{VERSION}")).join("pgbouncer");
    if !is_usable(&program) {
        build(dir).with_context(|| format!("cannot build PgBouncer {VERSION}\n  to fix: {ADVICE}"))?;
    }
    if !is_usable(&program) {
        bail!("{} was built and does not run\n  to fix: {ADVICE}", program.display());
    }
    Ok(program)
}

/// Whether the program exists and is new enough.
fn is_usable(program: &Path) -> bool {
    program.is_file()
        && capture(Command::new(program).arg("--version"), ADVICE).is_ok_and(|said| version(&said) >= Some(OLDEST))
}

/// Parses a text that begins with `PgBouncer 1.24.1`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("PgBouncer ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.trim().parse().ok()?))
}

fn build(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let tarball = dir.join(format!("pgbouncer-{VERSION}.tar.gz"));
    if !is_genuine(&tarball) {
        SOURCES
            .iter()
            .find(|source| fetch(source, &tarball))
            .with_context(|| format!("none of {} gave a file with the checksum {CHECKSUM}", SOURCES.join(", ")))?;
    }
    let has_all = ["cc", "make", "pkg-config"].iter().all(|tool| succeeds(Command::new(tool).arg("--version")))
        && succeeds(Command::new("pkg-config").args(["--exists", "libevent"]));
    if !has_all {
        install::packages("a C compiler, make, pkg-config or libevent", &LIBEVENT, ADVICE)?;
    }
    capture(Command::new("tar").arg("-xzf").arg(&tarball).arg("-C").arg(dir), ADVICE)?;
    let within = dir.join(format!("pgbouncer-{VERSION}"));
    capture(Command::new("sh").arg("configure").args(FLAGS).current_dir(&within), ADVICE)?;
    capture(Command::new("make").args(["-j2", "pgbouncer"]).current_dir(&within), ADVICE).map(drop)
}

fn fetch(source: &str, to: &Path) -> bool {
    let curl = ["--fail", "--silent", "--show-error", "--location", "--max-time", "120", "--output"];
    run_with_retries(Command::new("curl").args(curl).arg(to).arg(source), ADVICE).is_ok() && is_genuine(to)
}

fn is_genuine(file: &Path) -> bool {
    let Ok(bytes) = fs::read(file) else { return false };
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text == CHECKSUM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_1_21_are_not_used() {
        assert!(version("PgBouncer 1.24.1\nlibevent 2.1.12-stable\n") >= Some(OLDEST));
        assert!(version("PgBouncer 1.21.0") >= Some(OLDEST));
        assert!(version("PgBouncer 1.18.0\n") < Some(OLDEST));
        assert!(version("something else") < Some(OLDEST));
    }

    #[test]
    fn what_has_another_checksum_is_not_built() {
        assert!(!is_genuine(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")));
        assert!(!is_genuine(Path::new("/no/such/file")));
    }
}
