//! `.env`: sets the variables of the file in the environment of the worker.

use std::env;
use std::path::PathBuf;

use diesel_jobs_storage::env_file::{self, EnvFileError};

use super::exit::CliError;

/// The file `.env` that was read.
pub(super) struct EnvFile {
    /// Its path.
    pub(super) path: PathBuf,
    /// Which of the variables that were asked for come from this file.
    pub(super) sets: Vec<String>,
}

/// Reads the file, if there is one, into the process's environment, and returns which of these variables come from it.
/// Call it before a second thread exists: no thread may read the environment while it changes.
pub(super) fn load(asked: &[&str]) -> Result<Option<EnvFile>, CliError> {
    let refused = |error: EnvFileError| CliError::usage(error.to_string());
    let Some(file) = env_file::EnvFile::nearest().map_err(refused)? else { return Ok(None) };
    let is_set = |name: &&str| env::var_os(name).is_none() && file.get(name).is_some();
    let sets = asked.iter().copied().filter(is_set).map(str::to_owned).collect();
    file.load().map_err(refused)?;
    Ok(Some(EnvFile { path: file.path().to_owned(), sets }))
}
