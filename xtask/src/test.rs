//! `cargo xtask test`: prepares everything, then runs all tests on real databases.
//!
//! `cargo test` runs its programs one after the other. So it only compiles them here, and says how they are to be
//! started: see `program.rs`. They run side by side: see `side_by_side.rs`.
//!
//! The tests find their PostgreSQL through three variables. `JOBS_TEST_DATABASE_URL` is the URL of a superuser and the
//! database `postgres`. `JOBS_TEST_CA` is the certificate authority that signed the server's certificate (PEM).
//! `JOBS_TEST_PG_BIN` is the directory with `postgres`, `pg_ctl` and `psql`. The tests of the dashboard find a browser
//! and axe-core through three more variables: see `browser.rs`.

mod again;
mod end;
mod output;
mod program;
mod run_program;
mod selection;
mod side_by_side;
mod summary;
mod tools;

use std::{
    io::Write as _,
    panic,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use clap::Args;
use cluster::Session;

use self::{
    program::Recorder,
    selection::{Selection, of_cargo, whole},
    tools::Tools,
};
pub(crate) use self::{
    program::{Program, Record, record},
    run_program::How,
    side_by_side::run as run_programs,
};
use crate::run::{cargo, run as execute, without_libpq};

/// The directory of the output of the programs that are running.
pub(crate) const OUTPUTS: &str = "target/test-output";

/// How many minutes a test program may take. The longest takes about ten.
pub(crate) const LIMIT: u64 = 40;
/// The test programs of this name have bounds of time. `cargo xtask watch` runs them, optimised and alone.
pub(crate) const MEASURED: &str = "measured";
/// A killed server loses nothing with this, only a machine that loses its power does. The torture suite, which is about
/// crashes, has servers of its own.
const SETTINGS: &str = "fsync = off\nfull_page_writes = off\n";
/// This program runs on a server of its own, which translates its messages into German and sorts as in German: no
/// decision may depend on the language or the order. `cargo xtask versions` runs it on servers that do neither.
const TRANSLATED: &str = "diesel-jobs conformance";
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

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let arguments = &options.arguments;
    // The build below replaces this program's file.
    let recorder = Recorder::new(root)?;
    let postgres = cluster::ensure()?;
    let session = Session::begin_with(root.join(cluster::TESTS), &postgres, SETTINGS)?;
    let on_server = |command: &mut Command| {
        without_libpq(command)
            // The tests must not use the developer's own database.
            .env_remove("DATABASE_URL")
            .env_remove("DATABASE_URL_FILE")
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
        on_server(&mut command);
        command
    };

    let selection = Selection::of(arguments);
    let build = || {
        let mut programs = Vec::new();
        if selection != Selection::Docs {
            let mut compile = step(&["test", "--config", &recorder.setting()?]);
            if selection == Selection::Everything {
                compile.arg("--tests");
            }
            execute(whole(&mut compile, arguments), "correct the errors that the compiler names above")?;
            programs = recorder.recorded()?;
        }
        // Tests start workers, web servers and examples. These programs must exist and be current before the first
        // test runs.
        let mut build = step(&["build", "--workspace", "--all-features", "--bins", "--examples"]);
        build.args(of_cargo(arguments).filter(|argument| *argument == "--release"));
        execute(&mut build, "correct the errors that the compiler names above")?;
        anyhow::Ok(programs)
    };
    let (tools, programs) = thread::scope(|scope| {
        let tools = scope.spawn(|| Tools::ensure(root, arguments));
        let programs = build();
        (tools.join().unwrap_or_else(|problem| panic::resume_unwind(problem)), programs)
    });
    let (tools, mut programs) = (tools?, programs?);
    if selection == Selection::Everything {
        programs.retain(|program| !program.is(MEASURED));
    }
    if arguments.is_empty() {
        side_by_side::check_names(&programs)?;
    }
    let prepare = |command: &mut Command| {
        on_server(command);
        command.envs(tools.variables());
    };
    let mut german = None;
    if programs.iter().any(is_translated) {
        let settings = format!("{SETTINGS}lc_messages = 'C.UTF-8'\n");
        let begin = |settings: &str| Session::begin_with(root.join(cluster::TRANSLATED), &postgres, settings);
        let server = german.insert(begin(&settings).or_else(|problem| {
            eprintln!("SKIPPED: this machine has no locale C.UTF-8, so the server of `{TRANSLATED}` speaks English: {problem:#}");
            begin(SETTINGS)
        })?);
        let on = |program: Program| if is_translated(&program) { program.on(&postgres, server) } else { program };
        programs = programs.into_iter().map(on).collect();
    }
    if selection != Selection::Programs {
        programs.push(documentation(root, &selection, arguments));
    }
    let limit = Duration::from_secs(60 * options.limit);
    let how = How { outputs: &root.join(OUTPUTS), limit, prepare: &prepare, print: &print };
    let mut failures = run_programs(programs, &how)?;
    if !failures.is_empty() {
        failures.push(format!("to fix: {FIX}"));
    }
    [Some(&session), german.as_ref()].into_iter().flatten().try_for_each(Session::check)?;
    if arguments.is_empty() {
        let mut quickstart = step(&["run", "--example", "quickstart"]);
        // A new user runs it without these variables.
        for name in ["JOBS_TEST_DATABASE_URL", "TEST_DATABASE_URL", "JOBS_TEST_CA", "JOBS_TEST_PG_BIN"] {
            quickstart.env_remove(name);
        }
        let fix = "the README promises that this command works: mend the example or the library";
        failures.extend(execute(&mut quickstart, fix).err().map(|error| format!("{error:#}")));
    }
    drop((session, german));
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

fn is_translated(program: &Program) -> bool {
    program.name == TRANSLATED
}

/// Cargo, which runs the tests in the documentation.
fn documentation(root: &Path, selection: &Selection, arguments: &[String]) -> Program {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("test");
    if *selection == Selection::Everything {
        command.arg("--doc");
    }
    whole(&mut command, arguments);
    Program {
        name: "documentation".to_owned(),
        file: PathBuf::from(command.get_program()),
        arguments: command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        directory: root.to_path_buf(),
        variables: Vec::new(),
    }
}

/// Prints the output of a test program.
pub(crate) fn print(output: &[u8]) {
    let mut to = std::io::stdout().lock();
    // If nobody reads it, the tests still pass or fail.
    let _ = to.write_all(output).and_then(|()| to.flush());
}
