//! Times in words.

use chrono::{DateTime, SecondsFormat, Utc};

/// Tokens may come many times in a second.
pub(super) fn exactly(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true).replacen('T', " ", 1)
}

pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1)
}
