//! The exit codes of the commands, and the error that is printed with them.

use std::fmt;
use std::io;
use std::process::ExitCode;

use diesel_jobs_core::{StorageError, WorkerError};

/// The exit codes. Scripts and supervisors rely on them: the meaning of a code never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The command succeeded, or the worker drained after a stop request, or found no due job with `--until-empty`.
    Fine = 0,
    /// The command failed, was interrupted, or was refused for a job. `doctor` found an error.
    Failed = 1,
    /// An option, an environment variable or the database's URL is invalid, or the program cannot run its jobs, so that
    /// it would fail again. clap uses the same code.
    Usage = 2,
    /// The database cannot be reached.
    Unreachable = 3,
    /// The schema is missing, older or newer than this program.
    Schema = 4,
    /// `run --until-empty` has ended, and a job was discarded meanwhile.
    Discarded = 5,
    /// The server refuses the credentials.
    Credentials = 6,
}

/// The table of exit codes at the end of `--help`.
pub(super) const HELP: &str = "\
Exit codes:
  0  fine; also a worker that was asked to stop and did, or that found no due job with --until-empty
  1  the command failed, was interrupted, or was refused for a job; `doctor` found an error
  2  an option, an environment variable or the database URL is not understood, or the
     program cannot run its jobs as they are, such as without a state that they take
  3  the database cannot be reached
  4  the schema is missing, older or newer than this program
  5  `run --until-empty` has ended, and it has discarded a job
  6  the server refuses the credentials; a running worker ends after five minutes of this

Commands print to standard output, logs and errors go to standard error.";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed, as a text for the user.
#[derive(Debug)]
pub(super) struct CliError {
    /// The exit code of the process.
    pub(super) exit: Exit,
    message: String,
}

impl CliError {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&StorageError> for Exit {
    fn from(error: &StorageError) -> Self {
        match error {
            StorageError::Unavailable(_) => Self::Unreachable,
            StorageError::Credentials(_) => Self::Credentials,
            StorageError::Schema(_) => Self::Schema,
            StorageError::Config(_) => Self::Usage,
            _ => Self::Failed,
        }
    }
}

impl From<StorageError> for CliError {
    fn from(error: StorageError) -> Self {
        Self::new(Exit::from(&error), error.to_string())
    }
}

impl From<WorkerError> for CliError {
    fn from(error: WorkerError) -> Self {
        let exit = match &error {
            WorkerError::Storage(error) => Exit::from(error),
            WorkerError::Setting(_) | WorkerError::Registry(_) => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::failed(format!("writing the output: {error}"))
    }
}
