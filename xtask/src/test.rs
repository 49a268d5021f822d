//! `cargo xtask test`: prepares everything, then runs all tests on real databases.
//!
//! `cargo test` runs its programs one after the other. So it only compiles them here, and says how they are to be started:
//! see `program.rs`. They run side by side: see `side_by_side.rs`.
//!
//! The tests find their PostgreSQL through three variables. `JOBS_TEST_DATABASE_URL` is the URL of a superuser and the
//! database `postgres`. `JOBS_TEST_CA` is the certificate authority that signed the server's certificate (PEM).
//! `JOBS_TEST_PG_BIN` is the directory with `postgres`, `pg_ctl` and `psql`. The tests of the dashboard find a browser and
//! axe-core through three more variables: see `browser.rs`.

mod end;
mod program;
mod side_by_side;

use std::{io::Write as _, path::Path, process::Command, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use cluster::Session;

pub(crate) use self::program::{Record, record};
use self::{program::Recorder, side_by_side::How};
use crate::{
    browser,
    run::{cargo, run as execute},
};

/// The directory of the output of the programs that are running.
const OUTPUTS: &str = "target/test-output";

/// How many minutes a test program may take. The longest takes about twelve.
const LIMIT: u64 = 40;
/// A killed server loses nothing with this, only a machine that loses its power does. The torture suite, which is about crashes, has servers of its own.
const SETTINGS: &str = "fsync = off\nfull_page_writes = off\n";
const FIX: &str = "read the failed tests' output above; run one alone with: cargo xtask test -- NAME";

#[derive(Args)]
pub(crate) struct Options {
    /// A test program that takes longer is killed, and counts as failed
    #[arg(long, value_name = "MINUTES", default_value_t = LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Passed on to `cargo test`, e.g. `-- --test postgres name_of_a_test`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit: LIMIT, arguments: Vec::new() }
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let arguments = &options.arguments;
    // The build below replaces this program's file.
    let recorder = Recorder::new(root)?;
    let postgres = cluster::ensure()?;
    let session = Session::begin_with(root.join(cluster::TESTS), &postgres, SETTINGS)?;
    let browser = if browser::is_needed(arguments) { Some(browser::variables(root)?) } else { None };
    let prepare = |command: &mut Command| {
        command
            .envs(browser.iter().flatten().map(|(name, value)| (*name, value)))
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
    };
    let step = |arguments: &[&str]| {
        let mut command = cargo(root);
        command.args(arguments);
        prepare(&mut command);
        command
    };

    // Tests start workers, web servers and examples. These programs must exist and be current before the first test
    // runs.
    execute(
        &mut step(&["build", "--workspace", "--all-features", "--bins", "--examples"]),
        "correct the errors that the compiler names above",
    )?;
    let mut failures = Vec::new();
    let selection = Selection::of(arguments);
    if selection != Selection::Docs {
        let mut compile = step(&["test", "--config", &recorder.setting()?]);
        if selection == Selection::Everything {
            compile.arg("--tests");
        }
        execute(whole(&mut compile, arguments), "correct the errors that the compiler names above")?;
        let programs = recorder.recorded()?;
        if arguments.is_empty() {
            side_by_side::check_names(&programs)?;
        }
        let limit = Duration::from_secs(60 * options.limit);
        let how = How { outputs: &root.join(OUTPUTS), limit, prepare: &prepare, print: &print };
        failures.extend(side_by_side::run(programs, &how)?.into_iter().map(|line| format!("{line}\n  to fix: {FIX}")));
        session.check()?;
    }
    let mut docs = step(&["test"]);
    match selection {
        Selection::Everything => note(&mut failures, whole(docs.arg("--doc"), arguments), FIX),
        Selection::Docs => note(&mut failures, whole(&mut docs, arguments), FIX),
        Selection::Programs => {}
    }
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

/// Which tests the caller's arguments select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// All of them: no argument selects a sort of targets.
    Everything,
    /// Test programs.
    Programs,
    /// The tests in the documentation.
    Docs,
}

impl Selection {
    fn of(arguments: &[String]) -> Self {
        const TARGETS: [&str; 11] = [
            "--lib",
            "--bins",
            "--bin",
            "--tests",
            "--test",
            "--examples",
            "--example",
            "--benches",
            "--bench",
            "--all-targets",
            "--no-run",
        ];
        let is = |names: &[&str]| {
            of_cargo(arguments).any(|argument| names.contains(&argument.split('=').next().unwrap_or_default()))
        };
        match (is(&["--doc"]), is(&TARGETS)) {
            (true, _) => Self::Docs,
            (false, true) => Self::Programs,
            (false, false) => Self::Everything,
        }
    }
}

/// The arguments for cargo. Those after `--` are for the test programs.
fn of_cargo(arguments: &[String]) -> impl Iterator<Item = &String> {
    arguments.iter().take_while(|argument| *argument != "--")
}

/// Selects all packages, unless the caller names some.
fn whole<'a>(command: &'a mut Command, arguments: &[String]) -> &'a mut Command {
    let narrowed = of_cargo(arguments).any(|argument| argument == "-p" || argument.starts_with("--package"));
    if !narrowed {
        command.arg("--workspace");
    }
    command.args(["--all-features", "--no-fail-fast"]).args(arguments);
    command
}

/// Prints the output of a test program.
fn print(output: &[u8]) {
    let mut to = std::io::stdout().lock();
    // If nobody reads it, the tests still pass or fail.
    let _ = to.write_all(output).and_then(|()| to.flush());
}

/// Runs the command and records a failure. The next step runs in any case.
fn note(failures: &mut Vec<String>, command: &mut Command, fix: &str) {
    if let Err(error) = execute(command, fix) {
        failures.push(format!("{error:#}"));
    }
}

#[cfg(test)]
mod tests {
    use super::{Selection, whole};
    use std::process::Command;

    fn line(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let mut command = Command::new("cargo");
        let command = whole(&mut command, &arguments);
        command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_select_programs_or_docs() {
        let selected = |line: &str| Selection::of(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in ["", "name", "-p diesel-jobs", "-p diesel-jobs name -- --nocapture", "-- --test", "-- --doc"] {
            assert_eq!(selected(line), Selection::Everything, "{line}");
        }
        for line in ["--test conformance", "--test=conformance", "-p diesel-jobs --lib name", "--no-run"] {
            assert_eq!(selected(line), Selection::Programs, "{line}");
        }
        assert_eq!(selected("-p diesel-jobs --doc"), Selection::Docs);
    }

    #[test]
    fn naming_a_package_narrows_the_run() {
        assert_eq!(line(&["name"]), "--workspace --all-features --no-fail-fast name");
        assert_eq!(line(&["-p", "diesel-jobs-core"]), "--all-features --no-fail-fast -p diesel-jobs-core");
        assert_eq!(line(&["--", "-p"]), "--workspace --all-features --no-fail-fast -- -p");
    }
}
