//! `cargo xtask versions`: runs the conformance suite and the tests of PostgreSQL's plans on every supported major
//! version.
//!
//! `postgresql/package.json` lists the servers, and its lock file has their checksums. npm downloads them once and runs
//! no scripts of theirs. Each version runs in a process of its own, `cargo xtask versions --only`.

use std::{
    fs, io, iter,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cluster::{Postgres, Session};
use serde::Deserialize;

use crate::run::{capture, cargo, run as execute};

const VERSIONS: [&str; 5] = ["14", "15", "16", "17", "18"];
const PACKAGE: &str = include_str!("../postgresql/package.json");
const LOCK: &str = include_str!("../postgresql/package-lock.json");
/// The tests check what statements do, not what survives a crash.
const SETTINGS: &str = "fsync = off\nfull_page_writes = off\nsynchronous_commit = off\n";
/// How many versions are tested at a time.
const LANES: usize = 2;
const FIX: &str = "run it alone on this version with: cargo xtask versions --only VERSION";

#[derive(Args, Default)]
pub(crate) struct Options {
    /// On this major version alone
    #[arg(long, value_name = "VERSION", value_parser = VERSIONS)]
    only: Option<String>,
    /// Not on the major version with which `cargo xtask test` runs all tests
    #[arg(long, conflicts_with = "only")]
    others: bool,
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
    let programs = build(root)?;
    match &options.only {
        Some(version) => test(root, &base, &servers, version, &programs),
        None => {
            let tested = if options.others { major_version(&cluster::ensure()?)? } else { String::new() };
            side_by_side(root, &VERSIONS.into_iter().filter(|version| *version != tested).collect::<Vec<_>>())
        }
    }
}

/// The major version of this server, such as "17".
fn major_version(postgres: &Postgres) -> Result<String> {
    let said = capture(Command::new(postgres.bin.join("postgres")).arg("--version"), "install PostgreSQL again")?;
    let version = said.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let digits = |word: &str| word.chars().take_while(char::is_ascii_digit).collect();
    version.map(digits).with_context(|| format!("`postgres --version` names no version: {said}"))
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
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=60000"]);
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
struct Program {
    file: PathBuf,
    package: PathBuf,
    /// The filter that selects the tests of PostgreSQL.
    tests: &'static str,
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
fn build(root: &Path) -> Result<Vec<Program>> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--all-features", "--lib", "--test", "conformance", "--no-run"]);
    command.args(["--quiet", "--message-format", "json-render-diagnostics"]);
    let said = capture(&mut command, "correct the errors that the compiler names above")?;
    // Lines about other events do not have these fields.
    let artifacts = said.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let programs: Vec<Program> = artifacts
        .filter_map(|Artifact { executable, manifest_path, target }| {
            let tests = match &*target.name {
                "conformance" => "postgres",
                "diesel_jobs_storage" => "pg::",
                _ => return None,
            };
            Some(Program { file: executable?, package: manifest_path.parent()?.to_path_buf(), tests })
        })
        .collect();
    if programs.len() != 2 {
        bail!("cargo built {} of the 2 test programs\n  to fix: read its output: {said}", programs.len());
    }
    Ok(programs)
}

/// Runs PostgreSQL's tests on one version.
fn test(root: &Path, base: &Path, servers: &Path, version: &str, programs: &[Program]) -> Result<()> {
    let bin = servers.join(version).join("native/bin");
    let postgres = Postgres { bin, libpq: cluster::ensure()?.libpq };
    let session = Session::begin_with(base.join(version), &postgres, SETTINGS)?;
    for program in programs {
        let mut command = Command::new(&program.file);
        command.arg(program.tests).arg("--quiet").current_dir(root.join(&program.package));
        command.env_remove("DATABASE_URL").env("JOBS_TEST_DATABASE_URL", session.url());
        execute(
            command.env("JOBS_TEST_CA", session.ca()).env("JOBS_TEST_PG_BIN", &postgres.bin),
            &FIX.replace("VERSION", version),
        )?;
        session.check()?;
    }
    Ok(())
}

/// Runs the tests on these versions, two at a time. Prints one line per version, or the full output if it failed.
fn side_by_side(root: &Path, versions: &[&str]) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let run = |version: &str| {
        let begun = Instant::now();
        let mut command = Command::new(&program);
        let output = command.current_dir(root).args(["versions", "--only", version]).output();
        (version.to_owned(), output, begun.elapsed())
    };
    // More at a time would take as long, and tests with a time limit would fail.
    let next = AtomicUsize::new(0);
    let lane =
        || iter::from_fn(|| versions.get(next.fetch_add(1, Ordering::Relaxed))).map(|version| run(version)).collect();
    let ended: Vec<Vec<_>> = thread::scope(|scope| {
        let threads = [(); LANES].map(|()| scope.spawn(lane));
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut passed = 0;
    for (version, output, time) in ended.iter().flatten() {
        let Output { status, stdout, stderr } = output.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
        let verdict = if status.success() { "passed" } else { "FAILED" };
        eprintln!("PostgreSQL {version}: {verdict} after {:.1} s", time.as_secs_f64());
        if status.success() {
            passed += 1;
        } else {
            eprintln!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
        }
    }
    if passed < versions.len() {
        bail!(
            "the tests failed on {} of {} versions of PostgreSQL\n  to fix: {FIX}",
            versions.len() - passed,
            versions.len()
        );
    }
    Ok(())
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
