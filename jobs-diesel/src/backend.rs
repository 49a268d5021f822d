//! The supported databases, and which of them a URL selects.

use std::fmt;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

/// The supported databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Backend {
    /// Returns the database that the scheme of a URL selects. Fails with `Config` for any other scheme.
    ///
    /// ```
    /// # use diesel_jobs_storage::Backend;
    /// assert_eq!(Backend::of("postgres://localhost/app").unwrap(), Backend::Postgres);
    /// assert_eq!(Backend::of("sqlite://jobs.db").unwrap(), Backend::Sqlite);
    /// assert!(Backend::of("mysql://localhost/app").is_err());
    /// ```
    pub fn of(url: &str) -> StorageResult<Self> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("sqlite") => Ok(Self::Sqlite),
            // The URL may hold a password. So the message repeats only the scheme, and only if the scheme is
            // alphanumeric and `://` follows it.
            scheme => Err(StorageError::Config(format!(
                "the database URL is {}; write {} or {}",
                scheme
                    .filter(|scheme| url[scheme.len()..].starts_with("://")
                        && scheme.chars().all(|c| c.is_ascii_alphanumeric()))
                    .map_or_else(
                        || "without a scheme".to_owned(),
                        |scheme| format!("of the scheme {scheme:?}, which `diesel-jobs` does not know")
                    ),
                Self::Postgres.form(),
                Self::Sqlite.form(),
            ))),
        }
    }

    /// The databases that this program was built for.
    pub fn built_in() -> &'static [Self] {
        match (cfg!(feature = "postgres"), cfg!(feature = "sqlite")) {
            (true, true) => &[Self::Postgres, Self::Sqlite],
            (true, false) => &[Self::Postgres],
            (false, true) => &[Self::Sqlite],
            (false, false) => &[],
        }
    }

    /// An example of its URLs, for error messages.
    pub const fn form(self) -> &'static str {
        match self {
            Self::Postgres => "postgres://user@host/name",
            Self::Sqlite => "sqlite://path/to/file.db",
        }
    }

    /// The error for a URL of this database in a program that was built without it.
    #[allow(dead_code)] // used when a feature is off
    pub(crate) fn not_built_in(self) -> StorageError {
        self.missing_from(Self::built_in())
    }

    fn missing_from(self, built: &[Self]) -> StorageError {
        let feature = match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        };
        let advice = format!("add the feature `{feature}` of `diesel-jobs` to its Cargo.toml");
        StorageError::Config(match built {
            [other, ..] => format!(
                "the database URL means {self}, and this program was built for {other} only: write {}, or {advice}",
                other.form()
            ),
            [] => format!("the database URL means {self}, and this program was built for no database: {advice}"),
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The URL may be given in code, so the error does not name the variable.
    #[test]
    fn a_url_of_no_known_scheme_is_refused_with_the_forms_of_urls() {
        for (url, problem) in [("app.db", "without a scheme"), ("mysql://localhost/app", "scheme \"mysql\"")] {
            let error = Backend::of(url).unwrap_err().to_string();
            for part in ["the database URL", problem, "postgres://", "sqlite://"] {
                assert!(error.contains(part), "{url}: {error}");
            }
            assert!(!error.contains("DATABASE_URL"), "{url}: {error}");
        }
    }

    #[test]
    fn the_error_names_the_missing_feature_and_a_url_that_works() {
        let message = |backend: Backend, built: &[Backend]| backend.missing_from(built).to_string();
        let error = message(Backend::Postgres, &[Backend::Sqlite]);
        assert!(error.contains("feature `postgres`") && error.contains("write sqlite://"), "{error}");
        let error = message(Backend::Sqlite, &[Backend::Postgres]);
        assert!(error.contains("feature `sqlite`") && error.contains("write postgres://"), "{error}");
        let error = message(Backend::Sqlite, &[]);
        assert!(error.contains("feature `sqlite`") && error.contains("no database"), "{error}");
    }
}
