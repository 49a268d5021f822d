//! `cargo xtask test`: prepares everything, then runs all tests on real databases.
//!
//! The tests find their PostgreSQL through three variables. `JOBS_TEST_DATABASE_URL` is the URL of a superuser and the
//! database `postgres`. `JOBS_TEST_CA` is the certificate authority that signed the server's certificate (PEM).
//! `JOBS_TEST_PG_BIN` is the directory with `postgres`, `pg_ctl` and `psql`. The tests of the dashboard find a browser and
//! axe-core through three more variables: see `browser.rs`.

use std::{path::Path, process::Command};

use anyhow::{Result, bail};
use clap::Args;
use cluster::Session;

use crate::{
    browser,
    run::{cargo, run as execute},
};

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Passed on to `cargo test`, e.g. `-- --test postgres name_of_a_test`
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let postgres = cluster::ensure()?;
    let session = Session::begin(root.join(cluster::TESTS), &postgres)?;
    let browser = if browser::is_needed(&options.arguments) { Some(browser::variables(root)?) } else { None };
    let step = |arguments: &[&str]| {
        let mut command = cargo(root);
        command.envs(browser.iter().flatten().map(|(name, value)| (*name, value)));
        command
            .args(arguments)
            // The tests must not use the developer's own database.
            .env_remove("DATABASE_URL")
            // Errors of `anyhow` print their backtrace with this. So the tests meet the same texts on every machine.
            .env("RUST_BACKTRACE", "1")
            .env("JOBS_TEST_DATABASE_URL", session.url())
            // The guide's tests take a server from here.
            .env("TEST_DATABASE_URL", session.url())
            .env("JOBS_TEST_CA", session.ca())
            .env("JOBS_TEST_PG_BIN", &postgres.bin);
        if let Some(dir) = &postgres.libpq {
            command.env("PQ_LIB_DIR", dir);
        }
        command
    };

    // Tests start workers, web servers and examples. These programs must exist and be current before the first test
    // runs.
    execute(
        &mut step(&["build", "--workspace", "--all-features", "--bins", "--examples"]),
        "correct the errors that the compiler names above",
    )?;
    let mut failures = Vec::new();
    note(
        &mut failures,
        &mut whole(step(&["test"]), &options.arguments),
        "read the failed tests' output above; run one alone with: cargo xtask test -- NAME",
    );
    session.check()?;
    let mut quickstart = step(&["run", "--example", "quickstart"]);
    // A new user runs it without these variables.
    for name in ["JOBS_TEST_DATABASE_URL", "TEST_DATABASE_URL", "JOBS_TEST_CA", "JOBS_TEST_PG_BIN"] {
        quickstart.env_remove(name);
    }
    note(
        &mut failures,
        &mut quickstart,
        "the README promises that this command works: mend the example or the library",
    );
    drop(session);
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// Selects all packages, unless the caller names some.
fn whole(mut command: Command, arguments: &[String]) -> Command {
    let narrowed = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "-p" || argument.starts_with("--package"));
    if !narrowed {
        command.arg("--workspace");
    }
    command.args(["--all-features", "--no-fail-fast"]).args(arguments);
    command
}

/// Runs the command and records a failure. The next step runs in any case.
fn note(failures: &mut Vec<String>, command: &mut Command, fix: &str) {
    if let Err(error) = execute(command, fix) {
        failures.push(format!("{error:#}"));
    }
}

#[cfg(test)]
mod tests {
    use super::whole;
    use std::process::Command;

    fn line(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let command = whole(Command::new("cargo"), &arguments);
        command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn naming_a_package_narrows_the_run() {
        assert_eq!(line(&["name"]), "--workspace --all-features --no-fail-fast name");
        assert_eq!(line(&["-p", "diesel-jobs-core"]), "--all-features --no-fail-fast -p diesel-jobs-core");
        assert_eq!(line(&["--", "-p"]), "--workspace --all-features --no-fail-fast -- -p");
    }
}
