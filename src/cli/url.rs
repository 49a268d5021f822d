//! Selects the database, and records which setting named it.

use std::fmt;
use std::path::{Path, PathBuf};

use diesel_jobs_storage::Backend;

use super::database::place;
use super::dotenv::EnvFile;
use super::exit::CliError;
use super::global_args::GlobalArgs;
use super::settings::{self, DATABASE_URL, Environment};

/// The database of a program that was built with SQLite alone, if none is named.
const DEFAULT_URL: &str = "sqlite://jobs.db";

/// A database's URL. Do not print it: it may contain a password.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) url: String,
    source: Source,
}

#[derive(Debug, PartialEq, Eq)]
enum Source {
    Option,
    Environment,
    File(PathBuf),
    Default,
}

/// Returns the database that the option, the environment or `.env` names. If none is named, a program that was built
/// with SQLite alone uses a file. A program that includes PostgreSQL gets `None`: it must not start to store jobs in a
/// file that is not expected there.
pub(super) fn choose(
    args: &GlobalArgs,
    env: Environment<'_>,
    file: Option<&EnvFile>,
    built: &[Backend],
) -> Result<Option<Chosen>, CliError> {
    let source = match (&args.database_url, file) {
        (Some(_), _) => Source::Option,
        (None, Some(file)) if file.names_database => Source::File(file.path.clone()),
        (None, _) => Source::Environment,
    };
    let chosen = settings::database_url(args, env)?.map(|url| Chosen { url, source });
    let default = || Chosen { url: DEFAULT_URL.to_owned(), source: Source::Default };
    Ok(chosen.or_else(|| (built == [Backend::Sqlite]).then(default)))
}

/// Returns the error for a missing database URL.
pub(super) fn unset(file: Option<&Path>, built: &[Backend]) -> CliError {
    let looked = match file {
        Some(file) => format!("neither in the environment nor in {}", file.display()),
        None => "and there is no file .env here or above".to_owned(),
    };
    let also = match built.contains(&Backend::Sqlite) {
        true => format!(
            "; this program can use SQLite, too: {DATABASE_URL}={DEFAULT_URL} is a file in the working directory"
        ),
        false => String::new(),
    };
    CliError::usage(format!(
        "no database is named: {DATABASE_URL} is not set, {looked}. Write {DATABASE_URL}={} into the environment or into \
         .env{also}",
        Backend::Postgres.form()
    ))
}

impl fmt::Display for Chosen {
    /// Describes the database without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = Backend::of(&self.url).ok();
        match (backend, place(&self.url)) {
            (Some(Backend::Sqlite), Some(place)) => write!(f, "the SQLite file {place}")?,
            (_, Some(place)) => f.write_str(&place)?,
            (Some(backend), None) => write!(f, "the {backend} database of the URL")?,
            (None, None) => f.write_str("the database of the URL")?,
        }
        match &self.source {
            Source::Option => f.write_str(" (--database-url)"),
            Source::Environment => write!(f, " ({DATABASE_URL})"),
            Source::File(path) => write!(f, " ({DATABASE_URL} in {})", path.display()),
            Source::Default => write!(f, " (the default: {DATABASE_URL} is not set)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const BOTH: &[Backend] = &[Backend::Postgres, Backend::Sqlite];

    fn chosen(
        option: Option<&str>,
        variable: Option<&'static str>,
        file: Option<&EnvFile>,
        built: &[Backend],
    ) -> String {
        let args = GlobalArgs { database_url: option.map(str::to_owned), log: None, json: false };
        let env = move |name: &str| variable.filter(|_| name == DATABASE_URL).map(OsString::from);
        choose(&args, &env, file, built).unwrap().map_or_else(|| "none".to_owned(), |chosen| chosen.to_string())
    }

    #[test]
    fn the_source_is_displayed_and_the_password_is_not() {
        let file = EnvFile { path: "/app/.env".into(), names_database: true };
        let url = "postgres://me:s3cret@db/app";
        assert_eq!(chosen(Some(url), Some("sqlite://x"), Some(&file), BOTH), "database app at db (--database-url)");
        assert_eq!(chosen(None, Some(url), None, BOTH), "database app at db (DATABASE_URL)");
        assert_eq!(chosen(None, Some(url), Some(&file), BOTH), "database app at db (DATABASE_URL in /app/.env)");
        assert_eq!(
            chosen(None, Some("postgres://me:s3/cret@db/app"), None, BOTH),
            "the PostgreSQL database of the URL (DATABASE_URL)"
        );
    }

    #[test]
    fn only_a_program_with_sqlite_alone_falls_back_to_a_file() {
        let default = "the SQLite file jobs.db (the default: DATABASE_URL is not set)";
        assert_eq!(chosen(None, None, None, &[Backend::Sqlite]), default);
        for built in [BOTH, &[Backend::Postgres], &[]] {
            assert_eq!(chosen(None, None, None, built), "none", "{built:?}");
        }
    }

    #[test]
    fn without_a_database_the_error_states_what_to_write() {
        let postgres = unset(None, &[Backend::Postgres]).to_string();
        assert!(postgres.contains("DATABASE_URL=postgres://") && postgres.contains("no file .env"), "{postgres}");
        assert!(!postgres.to_lowercase().contains("sqlite"), "{postgres}");
        let both = unset(Some(Path::new("/app/.env")), BOTH).to_string();
        assert!(both.contains("DATABASE_URL=sqlite://jobs.db") && both.contains("nor in /app/.env"), "{both}");
    }
}
