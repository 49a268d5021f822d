//! The errors of a storage.

use crate::debug_as_display;
use crate::error::NoRuntime;

debug_as_display!(StorageError);

/// Why an operation of a storage failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The database cannot be reached, or the connection was lost. A retry may succeed. The text contains the
    /// database's message. The error has no `source()`.
    #[error("the database is unavailable: {0}")]
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
    /// The server refused the user or the password of a new connection. Credentials that have changed meanwhile may be
    /// accepted. The text contains the server's message.
    #[error("the server refuses the credentials: {0}")]
    Credentials(Box<dyn std::error::Error + Send + Sync>),
    /// The database refused the statement. The same statement would be refused again. The text contains the database's
    /// message. The error has no `source()`.
    #[error("the database refused: {0}")]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// The schema is missing, older or newer than this program.
    #[error("{0}")]
    Schema(String),
    /// The database belongs to another environment than the worker. It may be a restored or cloned database.
    #[error("{0}")]
    Environment(String),
    /// The URL or a setting is not understood.
    #[error("{0}")]
    Config(String),
}

impl From<NoRuntime> for StorageError {
    fn from(error: NoRuntime) -> Self {
        Self::Config(error.to_string())
    }
}

impl StorageError {
    /// Whether the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Credentials(_))
    }

    /// The same error for one more job that has it.
    pub(crate) fn repeated(&self) -> Self {
        match self {
            Self::Unavailable(error) => Self::Unavailable(error.to_string().into()),
            Self::Credentials(error) => Self::Credentials(error.to_string().into()),
            Self::Refused(error) => Self::Refused(error.to_string().into()),
            Self::Schema(text) => Self::Schema(text.clone()),
            Self::Environment(text) => Self::Environment(text.clone()),
            Self::Config(text) => Self::Config(text.clone()),
        }
    }

    /// The name of the sort of error, for metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Credentials(_) => "credentials",
            Self::Refused(_) => "refused",
            Self::Schema(_) => "schema",
            Self::Environment(_) => "environment",
            Self::Config(_) => "config",
        }
    }
}
