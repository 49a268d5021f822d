//! `cargo xtask versions`: runs the conformance suite and the tests of PostgreSQL's plans on every supported major
//! version.
//!
//! `postgresql/package.json` lists the servers, and its lock file has their checksums. npm downloads them once and runs
//! no scripts of theirs.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cluster::{Postgres, Session};
use serde::Deserialize;

use crate::{
    run::{capture, cargo, without_libpq},
    test::{self, How, Program},
};

/// The tests of the conformance suite.
const CONFORMANCE: &str = "postgres";
const VERSIONS: [&str; 5] = ["14", "15", "16", "17", "18"];
const PACKAGE: &str = include_str!("../postgresql/package.json");
const LOCK: &str = include_str!("../postgresql/package-lock.json");
/// The tests check what statements do, not what survives a crash.
const SETTINGS: &str = "fsync = off\nfull_page_writes = off\nsynchronous_commit = off\n";
const FIX: &str = "read the output above; one version alone: cargo xtask versions --only VERSION";

#[derive(Args)]
pub(crate) struct Options {
    /// On this major version only; may be given several times [default: all]
    #[arg(long, value_name = "VERSION", value_parser = VERSIONS)]
    only: Vec<String>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let base = root.join("target/pg-versions");
    let servers = match fetch(&base)? {
        Ok(servers) => servers,
        Err(why) => {
            let versions = VERSIONS.join(", ");
            eprintln!("SKIPPED: NOTHING was tested on PostgreSQL {versions}: their servers cannot be had here: {why}");
            return Ok(());
        }
    };
    let built = build(root)?;
    let libpq = cluster::ensure()?.libpq;
    let (mut sessions, mut programs) = (Vec::new(), Vec::new());
    let asked = |version: &str| options.only.is_empty() || options.only.iter().any(|only| only == version);
    for version in VERSIONS.into_iter().filter(|version| asked(version)) {
        let postgres = Postgres { bin: servers.join(version).join("native/bin"), libpq: libpq.clone() };
        let session = Session::begin_with(base.join(version), &postgres, SETTINGS)?;
        programs.extend(built.iter().map(|program| program.on(version, &postgres, &session)));
        sessions.push(session);
    }
    // Of all versions, the program that takes longest begins first.
    programs.sort_by_key(|program| !program.name.ends_with(CONFORMANCE));
    let prepare = |command: &mut Command| {
        without_libpq(command).env_remove("DATABASE_URL").env("RUST_BACKTRACE", "1");
    };
    let limit = Duration::from_secs(60 * test::LIMIT);
    let how = How { outputs: &root.join(test::OUTPUTS), limit, prepare: &prepare, print: &test::print };
    let failures = test::run_programs(programs, &how)?;
    for session in &sessions {
        session.check()?;
    }
    if !failures.is_empty() {
        bail!("{}\n  to fix: {FIX}", failures.join("\n"));
    }
    Ok(())
}

/// Returns the directory with the packages of all versions, or why they are not available.
fn fetch(base: &Path) -> Result<Result<PathBuf, String>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Err("the packages are for Linux on x86-64".to_owned()));
    }
    // A place that the server's user can access.
    let within = cluster::place(base)?.join("npm");
    let (packages, complete) = (within.join("node_modules"), within.join("complete"));
    if fs::read_to_string(&complete).is_ok_and(|lock| lock == LOCK) {
        return Ok(Ok(packages));
    }
    if within.exists() {
        fs::remove_dir_all(&within)?;
    }
    fs::create_dir(&within).with_context(|| format!("cannot make {}", within.display()))?;
    fs::write(within.join("package.json"), PACKAGE)?;
    fs::write(within.join("package-lock.json"), LOCK)?;
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=3", "--fetch-timeout=60000"]);
    if let Err(problem) = capture(npm.current_dir(&within), "install Node.js and npm, and let npm reach its registry") {
        let problem = format!("{problem:#}");
        if problem.contains("EINTEGRITY") {
            bail!("a package is not the one that was looked at\n{problem}");
        }
        return Ok(Err(problem));
    }
    for version in VERSIONS {
        link(&packages.join(version))?;
    }
    fs::write(complete, LOCK)?;
    Ok(Ok(packages))
}

/// A symbolic link of a package. npm's format cannot contain links. Both paths are relative to the package.
#[derive(Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

/// Creates the symbolic links that the package lists.
fn link(package: &Path) -> Result<()> {
    let list = package.join("native/pg-symlinks.json");
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    for Link { source, target } in serde_json::from_str::<Vec<Link>>(&text)? {
        match symlink(package.join(source), package.join(&target)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make the link {}", target.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A test program, and the directory it runs in.
struct Built {
    file: PathBuf,
    package: PathBuf,
    /// The filter that selects the tests of PostgreSQL.
    tests: &'static str,
}

impl Built {
    fn on(&self, version: &str, postgres: &Postgres, session: &Session) -> Program {
        let program = Program {
            name: format!("PostgreSQL {version} {}", self.tests.trim_end_matches(':')),
            file: self.file.clone(),
            arguments: vec![self.tests.to_owned()],
            directory: self.package.clone(),
            variables: Vec::new(),
        };
        program.on(postgres, session)
    }
}

#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    target: Target,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds with the same options as `cargo xtask test`, so that nothing is left to compile after it.
fn build(root: &Path) -> Result<Vec<Built>> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--all-features", "--lib", "--test", "conformance", "--no-run"]);
    command.args(["--quiet", "--message-format", "json-render-diagnostics"]);
    let said = capture(&mut command, "correct the errors that the compiler names above")?;
    // Lines about other events do not have these fields.
    let artifacts = said.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let programs: Vec<Built> = artifacts
        .filter_map(|Artifact { executable, manifest_path, target }| {
            let tests = match &*target.name {
                "conformance" => CONFORMANCE,
                "diesel_jobs_storage" => "pg::",
                _ => return None,
            };
            Some(Built { file: executable?, package: manifest_path.parent()?.to_path_buf(), tests })
        })
        .collect();
    if programs.len() != 2 {
        bail!("cargo built {} of the 2 test programs\n  to fix: read its output: {said}", programs.len());
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_a_package_and_a_checksum() {
        let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
        let lock: serde_json::Value = serde_json::from_str(LOCK).unwrap();
        for version in VERSIONS {
            let wanted = package["dependencies"][version].as_str().unwrap();
            assert!(wanted.contains(&format!("@{version}.")), "{wanted}");
            let locked = &lock["packages"][format!("node_modules/{version}")];
            assert!(wanted.ends_with(locked["version"].as_str().unwrap()), "{wanted}");
            assert!(locked["integrity"].as_str().unwrap().starts_with("sha512-"));
        }
    }
}
