//! Finds PostgreSQL's server programs and libpq.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::run::{capture, succeeds};

/// Returns the directory with `initdb`, `pg_ctl` and `postgres`: `PG_BIN`, otherwise the first of the usual places that
/// has them.
pub(crate) fn binaries() -> Result<Option<PathBuf>> {
    if let Some(dir) = env::var_os("PG_BIN") {
        return match complete(Path::new(&dir)) {
            Some(dir) => Ok(Some(dir)),
            None => bail!(
                "PG_BIN={} has no working initdb, pg_ctl and postgres\n  to fix: unset PG_BIN, or point it at such a directory",
                dir.display()
            ),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let configured = ask("pg_config", "--bindir").into_iter();
    let usual = [
        versions("/usr/lib/postgresql", "", "bin"),
        versions("/opt/homebrew/opt", "postgresql", "bin"),
        versions("/usr/local/opt", "postgresql", "bin"),
        versions("/usr", "pgsql-", "bin"),
    ];
    Ok(env::split_paths(&path).chain(configured).chain(usual.into_iter().flatten()).find_map(|dir| complete(&dir)))
}

/// Returns the directory if it has all programs. Links are resolved, because `psql` is in the directory of the real
/// `postgres`.
fn complete(dir: &Path) -> Option<PathBuf> {
    let has_all = |dir: &Path| ["initdb", "pg_ctl", "postgres"].iter().all(|name| dir.join(name).is_file());
    if !has_all(dir) {
        return None;
    }
    let real = fs::canonicalize(dir.join("postgres")).ok()?.parent()?.to_path_buf();
    let dir = if has_all(&real) { real } else { dir.to_path_buf() };
    succeeds(Command::new(dir.join("postgres")).arg("--version")).then_some(dir)
}

/// Returns the directories `parent/prefix*/below`, the newest version first.
fn versions(parent: &str, prefix: &str, below: &str) -> Vec<PathBuf> {
    let mut names: Vec<String> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    newest_first(&mut names);
    names.into_iter().map(|name| Path::new(parent).join(name).join(below)).collect()
}

fn newest_first(names: &mut [String]) {
    let version = |name: &str| -> Vec<u32> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    names.sort_by_key(|name| std::cmp::Reverse(version(name)));
}

/// How a linked program finds libpq.
pub(crate) enum Libpq {
    /// Its build script finds it.
    Known,
    /// It is in this directory, which the build script must be given.
    In(PathBuf),
}

impl Libpq {
    pub(crate) fn into_dir(self) -> Option<PathBuf> {
        match self {
            Self::Known => None,
            Self::In(dir) => Some(dir),
        }
    }
}

/// Finds libpq for linking. Its headers are not searched: the bindings are generated already, so only the library is
/// needed, and each package with the one also has the other.
pub(crate) fn libpq(bin: &Path) -> Option<Libpq> {
    let linkable = |dir: &Path| ["libpq.so", "libpq.dylib", "libpq.a"].iter().any(|name| dir.join(name).exists());
    if env::var_os("PQ_LIB_DIR").is_some_and(|dir| linkable(Path::new(&dir))) {
        return Some(Libpq::Known);
    }
    if ask("pg_config", "--libdir").is_some_and(|dir| linkable(&dir)) {
        return Some(Libpq::Known);
    }
    let beside = [bin.join("pg_config"), "/opt/homebrew/opt/libpq/bin/pg_config".into()];
    beside
        .iter()
        .filter(|program| program.is_file())
        .filter_map(|program| ask(program, "--libdir"))
        .find(|dir| linkable(dir))
        .map(Libpq::In)
}

fn ask(pg_config: impl AsRef<std::ffi::OsStr>, what: &str) -> Option<PathBuf> {
    let answer = capture(Command::new(pg_config).arg(what), "").ok()?;
    Some(answer.trim_end().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let mut names = ["9.6", "15", "9.10", "17"].map(String::from);
        newest_first(&mut names);
        assert_eq!(names, ["17", "15", "9.10", "9.6"]);
        let mut names = ["postgresql@9", "postgresql@14", "postgresql"].map(String::from);
        newest_first(&mut names);
        assert_eq!(names, ["postgresql@14", "postgresql@9", "postgresql"]);
    }

    #[test]
    fn a_directory_without_a_server_is_not_used() {
        assert_eq!(complete(Path::new(env!("CARGO_MANIFEST_DIR"))), None);
    }
}
