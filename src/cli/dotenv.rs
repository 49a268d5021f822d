//! `.env`: sets the variables of the file in the environment of the worker.

use std::env;
use std::path::PathBuf;

use diesel_jobs_storage::env_file::{self, EnvFileError};

use super::exit::CliError;

/// The file `.env` that was read.
pub(super) struct EnvFile {
    /// Its path.
    pub(super) path: PathBuf,
    /// Whether the database's URL comes from this file.
    pub(super) names_database: bool,
}

/// Reads the file, if there is one, into the process's environment. Call it before a second thread exists: no thread
/// may read the environment while it changes.
pub(super) fn load(database_url: &str) -> Result<Option<EnvFile>, CliError> {
    let refused = |error: EnvFileError| CliError::usage(error.to_string());
    let Some(file) = env_file::EnvFile::nearest().map_err(refused)? else { return Ok(None) };
    let names_database = env::var_os(database_url).is_none() && file.get(database_url).is_some();
    file.load().map_err(refused)?;
    Ok(Some(EnvFile { path: file.path().to_owned(), names_database }))
}
