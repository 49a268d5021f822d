//! What happens to a job that finds its limit full. A pass of admission finds such jobs, see `maintenance/admitter.rs`.

use serde::{Deserialize, Serialize};

use crate::error::{Failure, FailureKind};
use crate::failure::cancel_fingerprint;

/// What happens to a job that finds its limit full, or no token of its rate, when it becomes due. This applies only to
/// jobs that have not started yet: a retried or snoozed job always waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnFull {
    /// It waits.
    #[default]
    Wait,
    /// It is discarded.
    Discard,
    /// The oldest jobs with its key that also have this rule are cancelled, including running ones, until no more are
    /// left than the limit allows. A rate cannot have this rule.
    CancelOldest,
}

impl OnFull {
    /// The name, as it is written in `#[job]` and stored in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Discard => "discard",
            Self::CancelOldest => "cancel_oldest",
        }
    }

    /// Reads the stored name. An unknown name means [`Wait`](Self::Wait).
    pub fn parse(text: &str) -> Self {
        [Self::Discard, Self::CancelOldest].into_iter().find(|known| known.as_str() == text).unwrap_or_default()
    }

    /// Whether it is the default.
    pub const fn is_wait(&self) -> bool {
        matches!(self, Self::Wait)
    }

    /// The text after a limit in commands and pages. Empty for jobs that wait.
    pub const fn shown(self) -> &'static str {
        match self {
            Self::Wait => "",
            Self::Discard => "; a job that finds it full is discarded",
            Self::CancelOldest => "; a job that finds it full cancels the oldest one",
        }
    }

    /// The stored reason of a job that ends because of the limit with this name. `None` if it waits.
    #[doc(hidden)]
    pub fn failure(self, limit: &str) -> Option<Failure> {
        let (text, group) = match self {
            Self::Wait => return None,
            Self::Discard => (format!("its limit `{limit}` was full"), "its limit was full"),
            Self::CancelOldest => {
                (format!("its limit `{limit}` was full, and newer jobs took its place"), "newer jobs took its place")
            }
        };
        let mut failure = Failure::new(FailureKind::Cancelled, &text);
        failure.fingerprint = cancel_fingerprint(group);
        Some(failure)
    }
}
