//! Selects the database, and records which setting named it.

use std::fmt;
use std::path::{Path, PathBuf};

use diesel_jobs_storage::{Backend, Database, DatabaseBuilder, read_url_file, without_mark};

use super::dotenv::EnvFile;
use super::exit::CliError;
use super::global_args::GlobalArgs;
use super::place::place;
use super::settings::{DATABASE_URL, DATABASE_URL_FILE, Environment, variable};

/// The database of a program that was built with SQLite alone, if none is named.
const DEFAULT_URL: &str = "sqlite://jobs.db";

/// A database's URL. Do not print it: it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The URL, or why it cannot be read from its file.
    url: Result<String, String>,
    /// The file that contains the URL.
    file: Option<PathBuf>,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Option,
    Environment,
    File(PathBuf),
    Default,
}

impl Chosen {
    fn text(url: String, source: Source) -> Self {
        Self { url: Ok(without_mark(&url).to_owned()), file: None, source }
    }

    fn file(path: PathBuf, source: Source) -> Self {
        let url = read_url_file(&path).map_err(|problem| problem.to_string());
        Self { url, file: Some(path), source }
    }

    /// Returns the URL as it was at the start.
    pub(super) fn url(&self) -> Result<&str, CliError> {
        self.url.as_deref().map_err(CliError::usage)
    }

    /// Opens the database. The URL's file is read again for each new connection.
    pub(super) fn builder(&self) -> Result<DatabaseBuilder, CliError> {
        Ok(match &self.file {
            Some(path) => Database::builder_with_url_file(path),
            None => Database::builder(self.url()?),
        })
    }
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
    match (&args.database_url, &args.database_url_file) {
        (Some(_), Some(_)) => return Err(both("--database-url", "--database-url-file")),
        (Some(url), None) => return Ok(Some(Chosen::text(url.clone(), Source::Option))),
        (None, Some(path)) => return Ok(Some(Chosen::file(path.clone(), Source::Option))),
        (None, None) => {}
    }
    let of_file = |name: &str| file.filter(|file| file.sets.iter().any(|set| set == name));
    let source = |name| of_file(name).map_or(Source::Environment, |file| Source::File(file.path.clone()));
    let url = variable(env, DATABASE_URL)?.map(|url| (url, source(DATABASE_URL)));
    let path = variable(env, DATABASE_URL_FILE)?.map(|path| (PathBuf::from(path), source(DATABASE_URL_FILE)));
    Ok(match (url, path) {
        (Some((url, source)), None) => Some(Chosen::text(url, source)),
        (None, Some((path, source))) => Some(Chosen::file(path, source)),
        // The environment takes precedence over `.env`.
        (Some((url, Source::Environment)), Some((_, Source::File(_)))) => Some(Chosen::text(url, Source::Environment)),
        (Some((_, Source::File(_))), Some((path, Source::Environment))) => {
            Some(Chosen::file(path, Source::Environment))
        }
        (Some(_), Some(_)) => return Err(both(DATABASE_URL, DATABASE_URL_FILE)),
        (None, None) => (built == [Backend::Sqlite]).then(|| Chosen::text(DEFAULT_URL.to_owned(), Source::Default)),
    })
}

fn both(one: &str, other: &str) -> CliError {
    CliError::usage(format!("{one} and {other} are both set, and each names a database: remove one of them"))
}

/// Returns the error for a missing database URL.
pub(super) fn unset(env: Environment<'_>, file: Option<&Path>, built: &[Backend]) -> CliError {
    let is_empty = |name: &&str| env(name).is_some_and(|value| value.is_empty());
    let looked = match ([DATABASE_URL, DATABASE_URL_FILE].into_iter().find(is_empty), file) {
        (Some(empty), _) => format!("{empty} is set, but empty"),
        (None, Some(file)) => {
            format!("{DATABASE_URL} is not set, neither in the environment nor in {}", file.display())
        }
        (None, None) => format!("{DATABASE_URL} is not set, and there is no file .env here or above"),
    };
    let also = match built.contains(&Backend::Sqlite) {
        true => format!(
            "; this program can use SQLite, too: {DATABASE_URL}={DEFAULT_URL} is a file in the working directory"
        ),
        false => String::new(),
    };
    CliError::usage(format!(
        "no database is named: {looked}. Write {DATABASE_URL}={} into the environment or into \
         .env{also}",
        Backend::Postgres.form()
    ))
}

impl fmt::Display for Chosen {
    /// Describes the database without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_deref().unwrap_or_default();
        let backend = Backend::of(url).ok();
        match (backend, place(url)) {
            (Some(Backend::Sqlite), Some(place)) => write!(f, "the SQLite file {place}")?,
            (_, Some(place)) => f.write_str(&place)?,
            (Some(backend), None) => write!(f, "the {backend} database of the URL")?,
            (None, None) => f.write_str("the database of the URL")?,
        }
        let (option, variable) = match &self.file {
            Some(path) => {
                let path = path.display();
                (format!("--database-url-file {path}"), format!("{DATABASE_URL_FILE}={path}"))
            }
            None => ("--database-url".to_owned(), DATABASE_URL.to_owned()),
        };
        match &self.source {
            Source::Option => write!(f, " ({option})"),
            Source::Environment => write!(f, " ({variable})"),
            Source::File(path) => write!(f, " ({variable} in {})", path.display()),
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
        let args =
            GlobalArgs { database_url: option.map(str::to_owned), database_url_file: None, log: None, json: false };
        let env = move |name: &str| variable.filter(|_| name == DATABASE_URL).map(OsString::from);
        choose(&args, &env, file, built).unwrap().map_or_else(|| "none".to_owned(), |chosen| chosen.to_string())
    }

    #[test]
    fn the_source_is_displayed_and_the_password_is_not() {
        let file = EnvFile { path: "/app/.env".into(), sets: vec![DATABASE_URL.to_owned()] };
        let url = "postgres://me:s3cret@db/app";
        assert_eq!(chosen(Some(url), Some("sqlite://x"), Some(&file), BOTH), "database app at db (--database-url)");
        assert_eq!(chosen(None, Some(url), None, BOTH), "database app at db (DATABASE_URL)");
        assert_eq!(chosen(None, Some(url), Some(&file), BOTH), "database app at db (DATABASE_URL in /app/.env)");
        assert_eq!(
            chosen(None, Some("postgres://me:s3/cret@db/app"), None, BOTH),
            "the PostgreSQL database of the URL (DATABASE_URL)"
        );
    }

    /// The options, the variables of the environment and those of `.env`: each a URL and a file with a URL.
    fn named(options: [bool; 2], variables: [bool; 2], of_file: [bool; 2]) -> String {
        let url = |is_given: bool, text: &str| is_given.then(|| text.to_owned());
        let args = GlobalArgs {
            database_url: url(options[0], "sqlite://option"),
            database_url_file: url(options[1], "/option").map(PathBuf::from),
            log: None,
            json: false,
        };
        let names = [DATABASE_URL, DATABASE_URL_FILE];
        let place = |name: &str| names.iter().position(|of| *of == name);
        let env = |name: &str| {
            let place = place(name)?;
            let value = |of: &str| OsString::from(["sqlite://", "/"][place].to_owned() + of);
            if variables[place] { Some(value("environment")) } else { of_file[place].then(|| value("env-file")) }
        };
        let sets = (0..2).filter(|at| of_file[*at] && !variables[*at]).map(|at| names[at].to_owned()).collect();
        let file = EnvFile { path: "/app/.env".into(), sets };
        match choose(&args, &env, Some(&file), BOTH) {
            Ok(chosen) => chosen.map_or_else(|| "none".to_owned(), |chosen| chosen.to_string()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn one_source_names_the_database_and_two_of_equal_rank_are_refused() {
        let (neither, url, file, both) = ([false; 2], [true, false], [false, true], [true; 2]);
        let refused = |text: String| assert!(text.contains("are both set"), "{text}");
        for others in [neither, url, file, both] {
            assert_eq!(named(url, others, others), "the SQLite file option (--database-url)");
            assert_eq!(named(file, others, others), "the database of the URL (--database-url-file /option)");
            refused(named(both, others, others));
            assert_eq!(named(neither, url, others), "the SQLite file environment (DATABASE_URL)");
            assert_eq!(named(neither, file, others), "the database of the URL (DATABASE_URL_FILE=/environment)");
            refused(named(neither, both, others));
        }
        assert_eq!(named(neither, neither, url), "the SQLite file env-file (DATABASE_URL in /app/.env)");
        let of_file = "the database of the URL (DATABASE_URL_FILE=/env-file in /app/.env)";
        assert_eq!(named(neither, neither, file), of_file);
        refused(named(neither, neither, both));
    }

    #[test]
    fn a_variable_set_to_nothing_is_unset() {
        assert_eq!(chosen(None, Some(""), None, BOTH), "none");
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
        let postgres = unset(&|_| None, None, &[Backend::Postgres]).to_string();
        assert!(postgres.contains("DATABASE_URL=postgres://") && postgres.contains("no file .env"), "{postgres}");
        assert!(!postgres.to_lowercase().contains("sqlite"), "{postgres}");
        let both = unset(&|_| None, Some(Path::new("/app/.env")), BOTH).to_string();
        assert!(both.contains("DATABASE_URL=sqlite://jobs.db") && both.contains("nor in /app/.env"), "{both}");
        for name in [DATABASE_URL, DATABASE_URL_FILE] {
            let empty = |asked: &str| (asked == name).then(OsString::new);
            let error = unset(&empty, Some(Path::new("/app/.env")), BOTH).to_string();
            assert!(error.contains(&format!("{name} is set, but empty")) && !error.contains("not set"), "{error}");
        }
    }
}
