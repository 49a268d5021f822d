//! One problem that `check` has found, and what to do about it.

use serde::Serialize;

use crate::cli::output::printable;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Jobs will not run.
    Error,
    /// Jobs may not run, or not yet.
    Warning,
}

/// One problem.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// For programs that read the output. The meaning of a code never changes.
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) help: String,
}

impl Finding {
    pub(super) fn error(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { level: Level::Error, code, message: message.into(), help: help.into() }
    }

    pub(super) fn warning(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(code, message, help) }
    }

    pub(super) fn is_error(&self) -> bool {
        self.level == Level::Error
    }

    /// Returns the finding as two lines for people.
    pub(super) fn text(&self) -> String {
        let level = if self.is_error() { "error" } else { "warning" };
        format!("{level}: {}\n  help: {}\n", printable(&self.message), printable(&self.help))
    }
}
