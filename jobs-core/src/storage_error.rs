//! What a storage could not do.

use crate::debug_as_display;
use crate::error::NoRuntime;

debug_as_display!(StorageError);

/// What a storage could not do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The database cannot be reached or broke off; trying again may help. What it said is part of the text, and not a source.
    #[error("the database is unavailable: {0}")]
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
    /// The database was reached and refused; trying the same again will not help. What it said is part of the text, and not a source.
    #[error("the database refused: {0}")]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// The schema is missing, older or newer than this program.
    #[error("{0}")]
    Schema(String),
    /// The database belongs to another environment than the worker, as a restored or cloned one does.
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
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
