//! The options of all commands.

use std::path::PathBuf;

use clap::Args;

use super::logging::LogFormat;

/// The options of all commands.
#[derive(Debug, Args)]
pub(super) struct GlobalArgs {
    /// The database: postgres://user@host/name or sqlite://path/to/file.db. Other users of the machine can
    /// read command lines, so set a URL with a password in the variable: in the environment or in a file .env
    /// [env: DATABASE_URL] [default: sqlite://jobs.db in a program built for SQLite alone]
    #[arg(long, global = true, value_name = "URL", help_heading = "Options of all commands")]
    pub(super) database_url: Option<String>,
    /// A file that contains the URL of the database, such as a secret that Docker or Kubernetes mounts. It is read
    /// again for each new connection [env: DATABASE_URL_FILE]
    #[arg(long, global = true, value_name = "PATH", help_heading = "Options of all commands")]
    pub(super) database_url_file: Option<PathBuf>,
    /// The format of log lines; RUST_LOG selects which lines are logged [env: JOBS_LOG_FORMAT] [default: pretty]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Options of all commands")]
    pub(super) log: Option<LogFormat>,
    /// Answer in JSON: one object or array on one line
    #[arg(long, global = true, help_heading = "Options of all commands")]
    pub(super) json: bool,
}
