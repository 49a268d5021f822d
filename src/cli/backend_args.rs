//! The option that names a database whose SQL is wanted without a connection.

use clap::{Args, ValueEnum};
use diesel_jobs_storage::Backend;

use super::exit::CliError;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BackendName {
    Postgres,
    Sqlite,
}

/// Selects the database whose SQL is printed or written.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct BackendArgs {
    /// The database whose SQL is printed or written [default: the one of the database URL]
    #[arg(long, value_enum)]
    backend: Option<BackendName>,
}

impl BackendArgs {
    /// Returns the backend of the option, else the backend of `url`, else the only backend that this program was built
    /// with.
    pub(super) fn resolve(self, url: Option<&str>) -> Result<Backend, CliError> {
        match (self.backend, url, Backend::built_in()) {
            (Some(BackendName::Postgres), _, _) => Ok(Backend::Postgres),
            (Some(BackendName::Sqlite), _, _) => Ok(Backend::Sqlite),
            (None, Some(url), _) => Ok(Backend::of(url)?),
            (None, None, [only]) => Ok(*only),
            (None, None, _) => Err(CliError::usage(
                "for which database? Write --backend postgres or --backend sqlite, or set DATABASE_URL",
            )),
        }
    }
}
