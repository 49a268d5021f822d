//! Reads the command line, and answers `--version`.

use std::io;

use clap::{FromArgMatches as _, error::ErrorKind};
use diesel_jobs_core::installation::has_credentials;

use super::args::Cli;
use super::exit::Exit;
use super::settings::Environment;
use super::{help, output};

/// Parses the command line. clap's error also stands for `--help` and `--version`. It repeats the input; an error that
/// contains a URL is replaced, because the URL may contain a password.
pub(super) fn read() -> Result<Cli, clap::Error> {
    let read = help::grouped().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = read.map_err(|error| match error.use_stderr() && error.to_string().contains("://") {
        true => {
            help::grouped().error(ErrorKind::InvalidValue, "the URL of a database is not an argument: set DATABASE_URL")
        }
        false => error,
    })?;
    if cli.command.is_some() && !cli.run.is_empty() {
        return Err(help::grouped().error(
            ErrorKind::ArgumentConflict,
            "write the options of `run` and `doctor` after the command: `run --queues mail`",
        ));
    }
    Ok(cli)
}

/// Prints the version of the program, as workers report it, and that of this crate.
pub(super) fn say_version(program: Option<&str>, env: Environment<'_>) -> io::Result<Exit> {
    let set = env("JOBS_VERSION").map(|version| version.to_string_lossy().into_owned());
    let program =
        set.filter(|version| !version.is_empty() && !has_credentials(version)).or_else(|| program.map(str::to_owned));
    let program = program.map(|version| output::printable(&version) + " ").unwrap_or_default();
    output::print_text(&format!("worker {program}(diesel-jobs {})\n", env!("CARGO_PKG_VERSION")))?;
    Ok(Exit::Fine)
}
