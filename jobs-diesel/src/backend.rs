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
            scheme => Err(StorageError::Config(format!(
                "the database URL is {}; write {} or {}",
                scheme
                    .filter(|scheme| is_scheme(scheme) && url[scheme.len()..].starts_with("://"))
                    .map_or_else(|| "without a scheme".to_owned() + without_scheme(url), unknown),
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

/// Whether a message may repeat this text before `://`. A URL may hold a password, but no scheme can.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn unknown(scheme: &str) -> String {
    let named = format!("of the scheme {scheme:?}, ");
    match scheme.split_once('+') {
        Some((database, driver)) if ["postgres", "postgresql", "sqlite"].contains(&database) => {
            let instead = match (database, driver) {
                (_, "tls") => "write sslmode=require",
                ("sqlite", _) => "write sqlite:// and the path, which begins with `/` only if it is absolute",
                _ => "leave it out",
            };
            named + &format!("and only other programs know `+{driver}`: {instead}")
        }
        _ => named + "which `diesel-jobs` does not know",
    }
}

/// The first words of lists of names and values, such as `host=localhost dbname=app`, in lower case. libpq accepts such
/// lists, and clients in other languages have their own.
const KEYWORDS: [&str; 13] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "database",
    "user",
    "username",
    "user id",
    "password",
    "server",
    "data source",
    "service",
    "sslmode",
];

/// What a text is that should be a URL, without a part of it.
fn without_scheme(text: &str) -> &'static str {
    let text = text.trim();
    if text.starts_with("jdbc:sqlite:") {
        return ", because it begins with `jdbc:`: leave that out";
    }
    if text.starts_with("jdbc:") {
        return ", because it begins with `jdbc:`: leave that out, and write the user and the password before the host";
    }
    if text.starts_with("psql ") {
        return ", because it begins with the name of a program: write the URL alone";
    }
    if text.starts_with(['"', '\'']) {
        return ", because it begins with a quotation mark: write it without quotation marks, which `docker --env-file`, for example, does \
                not remove";
    }
    let (name, _) = text.split_once('=').unwrap_or_default();
    if !name.is_empty() && name.ends_with("URL") {
        return ", because it begins with the name of a variable and `=`: write the URL alone";
    }
    if KEYWORDS.contains(&name.trim_end().to_ascii_lowercase().as_str()) {
        return ", because it is a list of names and values: write them as a URL";
    }
    if text.starts_with(['/', '.', '~']) {
        return ": it is a path. If the file contains the URL, name it in DATABASE_URL_FILE or --database-url-file, or with \
                `builder_with_url_file`";
    }
    ""
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
        for (url, problem) in [
            ("app.db", "without a scheme"),
            ("mysql://localhost/app", "scheme \"mysql\", which"),
            (
                "postgresql+asyncpg://h/app",
                "scheme \"postgresql+asyncpg\", and only other programs know `+asyncpg`: leave it out",
            ),
            (
                "postgres+tls://h/app",
                "scheme \"postgres+tls\", and only other programs know `+tls`: write sslmode=require",
            ),
            ("sqlite+aiosqlite:///app.db", "scheme \"sqlite+aiosqlite\", and only other programs"),
            ("mysql+pymysql://h/app", "scheme \"mysql+pymysql\", which"),
        ] {
            let error = Backend::of(url).unwrap_err().to_string();
            for part in ["the database URL", problem, "postgres://", "sqlite://"] {
                assert!(error.contains(part), "{url}: {error}");
            }
            assert!(!error.contains("DATABASE_URL"), "{url}: {error}");
        }
    }

    #[test]
    fn a_quotation_mark_a_name_and_a_path_before_the_url_are_named() {
        for (url, problem) in [
            ("\"postgres://me:s3cret@h/x\"", "begins with a quotation mark"),
            (" 'sqlite://s3cret.db'", "begins with a quotation mark"),
            ("DATABASE_URL=postgres://me:s3cret@h/x", "begins with the name of a variable"),
            ("export DATABASE_URL=\"postgres://me:s3cret@h/x\"", "begins with the name of a variable"),
            ("/run/s3crets/url", "DATABASE_URL_FILE"),
            ("./s3cret", "DATABASE_URL_FILE"),
            ("jdbc:postgresql://h/x?user=me&password=s3cret", "begins with `jdbc:`"),
            ("jdbc:sqlite:s3cret.db", "begins with `jdbc:`"),
            ("psql 'postgres://me:s3cret@h/x'", "begins with the name of a program"),
            ("host=h user=me password=s3cret", "is a list of names and values"),
            ("dbname = s3cret", "is a list of names and values"),
            ("Server=h;Database=x;User Id=me;Password=s3cret", "is a list of names and values"),
        ] {
            let error = Backend::of(url).unwrap_err().to_string();
            assert!(error.contains("without a scheme") && error.contains(problem), "{url}: {error}");
            assert!(!error.contains("s3cret") && error.contains("write postgres://"), "{url}: {error}");
        }
        for url in ["app.db", "a=b", "postgres@host", "s3cret!x://h"] {
            let error = Backend::of(url).unwrap_err().to_string();
            assert!(error.contains("without a scheme; write postgres://"), "{url}: {error}");
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
