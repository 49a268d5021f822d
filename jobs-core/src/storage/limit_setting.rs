//! The number that an operator has set for a limit, instead of the one in the code.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use super::StorageResult;
use crate::rules::MOST_AT_ONCE;
use crate::storage_error::StorageError;

/// What an operator has set for a limit, for each of its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitSetting {
    /// The name of the limit.
    pub name: String,
    /// How many jobs of each key may run at once. 0: none starts.
    pub most: u32,
    /// Since when.
    pub at: DateTime<Utc>,
    /// Who has set it.
    pub by: String,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

impl fmt::Display for LimitSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most, at, by, reason, .. } = self;
        let at = at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1);
        write!(f, "set by {by} to {most} at {at}")?;
        match reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// Fails if the number cannot be set.
#[doc(hidden)]
pub fn check_most(name: &str, most: u32) -> StorageResult<()> {
    if most > MOST_AT_ONCE {
        return Err(StorageError::Config(format!(
            "the limit `{name}` cannot allow {most} jobs at once: it allows from 0 to {MOST_AT_ONCE}"
        )));
    }
    Ok(())
}

/// Fails if the name is that of a sequence.
#[doc(hidden)]
pub fn check_no_sequence(name: &str, is_sequence: bool) -> StorageResult<()> {
    if is_sequence {
        return Err(StorageError::Config(format!(
            "`{name}` is a sequence: it runs one job of each key at a time, and this number cannot be changed; `worker sequences` \
             prints those that are halted"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_says_who_made_it_and_why() {
        let at = DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").unwrap().to_utc();
        let mut setting = LimitSetting { name: "stripe".to_owned(), most: 2, at, by: "ann".to_owned(), reason: None };
        assert_eq!(setting.to_string(), "set by ann to 2 at 2026-01-02 03:04:05Z");
        setting.reason = Some("they are slow".to_owned());
        assert_eq!(setting.to_string(), "set by ann to 2 at 2026-01-02 03:04:05Z: they are slow");
    }

    #[test]
    fn numbers_that_no_limit_can_have_are_refused() {
        assert!(check_most("stripe", 0).is_ok() && check_most("stripe", MOST_AT_ONCE).is_ok());
        assert!(check_most("stripe", MOST_AT_ONCE + 1).unwrap_err().to_string().contains("from 0 to 10000"));
        assert!(check_no_sequence("orders", true).unwrap_err().to_string().contains("is a sequence"));
    }
}
