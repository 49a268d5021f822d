//! What is stored about the database as a whole: the environment it belongs to, and whether it is frozen.
//!
//! A dump and a copy of the file contain both. That is their purpose: workers must not run the jobs of a copy. An
//! automatic identifier cannot distinguish a copy from its original. Clones, upgrades, failovers and restores may
//! change or keep it, and they are legitimate. The operator therefore names the environment, and workers compare the
//! name.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::shell::{argument, word};
use crate::storage_error::StorageError;

/// The longest name of an environment, actor or reason, in characters.
const LONGEST: usize = 500;

/// What applies to all workers of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// The environment that the database belongs to. If it is `None`, any worker may serve the database.
    pub environment: Option<String>,
    /// The freeze, while the database is frozen.
    pub frozen: Option<Freeze>,
    /// Whether the server is a standby, which accepts no writes.
    pub standby: bool,
    /// Whether the server accepts no writes from this role, because it is a standby or because a setting makes
    /// transactions read-only.
    pub read_only: bool,
}

/// A freeze of the database, during which no jobs are claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Freeze {
    /// When the database was frozen.
    pub at: DateTime<Utc>,
    /// Who froze the database.
    pub by: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Freeze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1);
        write!(f, "frozen since {at} by {}: {}", self.by, self.reason)
    }
}

impl Installation {
    /// Returns an error unless a worker of this environment may serve the database. If the database has the name of an
    /// environment, the worker must have the same one; a worker without a name is refused, because the database may be
    /// a copy of production. If the database has no name, any worker may serve it, so that you can name the workers
    /// before you name the database.
    pub fn admit(&self, worker: Option<&str>) -> Result<(), StorageError> {
        let Some(environment) = self.environment.as_deref() else { return Ok(()) };
        let problem = match worker {
            Some(worker) if worker == environment => return Ok(()),
            Some(worker) => format!(
                "this database belongs to the environment `{environment}`, and this worker to `{worker}`: it has claimed nothing. \
                 If the database is the wrong one, correct DATABASE_URL. If it is a copy that should belong to `{worker}`, run \
                 `worker environment set --cancel-jobs {}`, which cancels the jobs in the copy (`--keep-jobs` runs them here)",
                argument(worker)
            ),
            None => format!(
                "this database belongs to the environment `{environment}`, and this worker names none: it has claimed nothing. If it \
                 is a worker of `{environment}`, set JOBS_ENVIRONMENT={} (or `--environment`, or `.environment(..)`). If \
                 the database is a copy, give the worker another name, for example `staging`, and run \
                 `worker environment set staging --cancel-jobs`, which cancels the jobs in the copy",
                word(environment)
            ),
        };
        Err(StorageError::Environment(problem))
    }
}

/// Fails unless the text can be stored as a name or a reason: one line, not empty, of limited length.
pub fn check_words(what: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("{what} must not be empty"));
    }
    if text.chars().count() > LONGEST {
        return Err(format!("{what} must not be longer than {LONGEST} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what} must be one line without control characters"));
    }
    if has_credentials(text) {
        return Err(format!("{what} must not be a URL with a user or a password"));
    }
    Ok(())
}

/// Whether the text contains a URL with a user or a password, so that it must be neither printed nor stored.
pub fn has_credentials(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let (scheme, rest) = (&text[..at], &text[at + 3..]);
        // A password may contain a slash or a blank that should be percent-encoded.
        let is_of_database = scheme.ends_with("postgres") || scheme.ends_with("postgresql");
        let ends = |c: char| "/?#".contains(c) || c.is_whitespace();
        let authority = if is_of_database { rest } else { rest.split(ends).next().unwrap_or(rest) };
        authority.contains('@') || rest.contains("password=")
    })
}

/// What of a text can be stored as a name: the text without control characters, up to the limit. `None` if nothing is
/// left. For names that nobody has chosen for this.
pub fn cleaned(text: &str) -> Option<String> {
    let shown: String = text.trim().chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    let name = shown.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: Option<&str>) -> Installation {
        Installation { environment: environment.map(str::to_owned), frozen: None, ..Installation::default() }
    }

    #[test]
    fn only_urls_with_a_user_or_a_password_have_credentials() {
        for text in [
            "postgres://me:s3cret@h/x",
            "a postgresql://me:s3/cr et@h",
            "https://me@h/",
            "postgres://h/x?password=s3cret",
        ] {
            assert!(has_credentials(text), "{text}");
        }
        for text in ["https://status.local/7, ask ada@example.com", "docker://ghcr.io/o/app@sha256:77", "me@h", "a://b"]
        {
            assert!(!has_credentials(text), "{text}");
        }
    }

    #[test]
    fn a_database_without_a_name_takes_any_worker() {
        assert!(of(None).admit(None).is_ok());
        assert!(of(None).admit(Some("staging")).is_ok());
    }

    #[test]
    fn a_database_with_a_name_takes_workers_of_the_same() {
        assert!(of(Some("production")).admit(Some("production")).is_ok());
        for other in [None, Some("staging"), Some("Production"), Some("")] {
            let refused = of(Some("production")).admit(other).unwrap_err();
            assert!(matches!(refused, StorageError::Environment(_)));
            let text = refused.to_string();
            assert!(text.contains("`production`") && text.contains("worker environment set"), "{text}");
        }
    }

    #[test]
    fn words_fit_one_line_and_are_no_url_with_a_password() {
        for right in ["restored for ticket 7", "https://tickets.local/7", "ada@example.com"] {
            assert!(check_words("the reason", right).is_ok(), "{right}");
        }
        for wrong in ["", "  ", "a\nb", "a\0", &"x".repeat(501), "postgres://me:s3cret@h/x"] {
            assert!(check_words("the reason", wrong).is_err(), "{wrong:?}");
        }
    }
}
