//! `TestDatabase`: a database with all tables, for one test.

#[cfg(feature = "sqlite")]
use std::path::Path;
use std::path::PathBuf;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use uuid::Uuid;

use super::migrations::{self, UserMigration};
#[cfg(feature = "postgres")]
use super::pg_database;
use crate::env_file::EnvFile;

/// A database for a single test, with the application's tables and those of `diesel-jobs`. It is deleted when this
/// value is dropped. If the test panics, the database is kept, and its URL is printed.
///
/// ```no_run
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// use diesel_jobs_storage::testing::TestDatabase;
///
/// let database = TestDatabase::builder().migrations("migrations").create().await?;
/// let url = database.url();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    #[cfg(feature = "postgres")]
    Server { server: String, name: String },
    #[cfg(feature = "sqlite")]
    File(PathBuf),
}

/// Builds a [`TestDatabase`].
#[derive(Clone, Debug, Default)]
#[must_use = "call `create`"]
pub struct TestDatabaseBuilder {
    server: Option<String>,
    migrations: Vec<PathBuf>,
}

impl TestDatabase {
    /// Returns a builder for a database.
    pub fn builder() -> TestDatabaseBuilder {
        TestDatabaseBuilder::default()
    }

    /// The URL of the database.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl TestDatabaseBuilder {
    /// Sets the URL of a PostgreSQL database whose role may create databases, or `sqlite:` for a temporary file.
    /// Default: the variable `TEST_DATABASE_URL`, or else `DATABASE_URL`, in the environment or in the nearest file
    /// `.env`, in the directory of the package or above.
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.server = Some(url.into());
        self
    }

    /// Adds a directory of the application's Diesel migrations, relative to the package. The migrations of
    /// `diesel-jobs` need not be among them.
    pub fn migrations(mut self, directory: impl Into<PathBuf>) -> Self {
        self.migrations.push(directory.into());
        self
    }

    /// Creates the database. On PostgreSQL, it is a copy of a template database, which is created once for each state
    /// of the migrations under a name that begins with `jobs_test_template_`, and stays on the server.
    pub async fn create(self) -> StorageResult<TestDatabase> {
        let server = match self.server {
            Some(server) => server,
            None => server(", or call `.server(..)` with a URL, or with `sqlite:` for a temporary file")?,
        };
        let mut all = Vec::new();
        for directory in &self.migrations {
            all.extend(migrations::read(directory)?);
        }
        all.sort_by(|a, b| a.version.cmp(&b.version));
        match server.split_once(':') {
            Some(("sqlite", _)) => sqlite(&all).await,
            _ => postgres(server, &all).await,
        }
    }

    /// Creates the database like [`create`](Self::create), in tests that are not async.
    pub fn create_blocking(self) -> StorageResult<TestDatabase> {
        on_a_thread(self.create())
    }
}

/// The variables with the URL of the server, the most important first.
const VARIABLES: [&str; 2] = ["TEST_DATABASE_URL", "DATABASE_URL"];

/// The URL of the server that the environment or the file `.env` names. `otherwise` is what else one can do.
pub(super) fn server(otherwise: &str) -> StorageResult<String> {
    if let Ok(url) = std::env::var(VARIABLES[0]) {
        return Ok(url);
    }
    let file = EnvFile::nearest().map_err(|error| StorageError::Config(format!("no test database: {error}")))?;
    let value = |name: &&str| std::env::var(name).ok().or_else(|| file.as_ref()?.get(name).map(str::to_owned));
    VARIABLES.iter().find_map(value).ok_or_else(|| {
        let looked = match &file {
            Some(file) => format!("neither in the environment nor in {}", file.path().display()),
            None => "and there is no file .env in the directory of the package or above".to_owned(),
        };
        StorageError::Config(format!(
            "no test database: TEST_DATABASE_URL and DATABASE_URL are not set, {looked}. Write the URL of a database whose role may create \
             databases into the environment of the tests or into .env, such as \
             TEST_DATABASE_URL=postgres://postgres:password@localhost/postgres{otherwise}"
        ))
    })
}

/// Runs a future on a thread with a runtime of its own.
fn on_a_thread<T: Send + 'static>(future: impl Future<Output = StorageResult<T>> + Send + 'static) -> StorageResult<T> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| StorageError::Unavailable(error.into()))?.block_on(future)
    };
    let ended = std::thread::spawn(run).join();
    ended.unwrap_or_else(|_| Err(StorageError::Unavailable("the thread of the test database panicked".into())))
}

#[cfg(feature = "postgres")]
async fn postgres(server: String, all: &[UserMigration]) -> StorageResult<TestDatabase> {
    let name = format!("jobs_test_{}", Uuid::now_v7().simple());
    let url = pg_database::create(&server, &name, all).await?;
    Ok(TestDatabase { url, place: Place::Server { server, name } })
}

#[cfg(not(feature = "postgres"))]
async fn postgres(server: String, _: &[UserMigration]) -> StorageResult<TestDatabase> {
    let _ = server;
    Err(StorageError::Config("this program was built without the feature `postgres`".to_owned()))
}

#[cfg(feature = "sqlite")]
async fn sqlite(all: &[UserMigration]) -> StorageResult<TestDatabase> {
    use diesel::prelude::*;

    let file = std::env::temp_dir().join(format!("jobs_test_{}.db", Uuid::now_v7().simple()));
    let path = file.to_string_lossy().into_owned();
    let database = TestDatabase { url: format!("sqlite://{path}"), place: Place::File(file) };
    let refused = |error: &dyn std::fmt::Display| StorageError::Refused(error.to_string().into());
    let mut conn = SqliteConnection::establish(&path).map_err(|error| refused(&error))?;
    fill_sqlite(&mut conn, all)?;
    Ok(database)
}

/// Creates the application's tables and those of `diesel-jobs`.
#[cfg(feature = "sqlite")]
pub(super) fn fill_sqlite(conn: &mut diesel::SqliteConnection, all: &[UserMigration]) -> StorageResult<()> {
    use diesel::connection::SimpleConnection as _;
    let refused = |problem: String| StorageError::Refused(problem.into());
    for UserMigration { directory, up, .. } in all {
        conn.batch_execute(up).map_err(|error| refused(format!("migration {directory}: {error}")))?;
    }
    crate::migrate(conn).map_err(|error| refused(error.to_string()))
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_: &[UserMigration]) -> StorageResult<TestDatabase> {
    Err(StorageError::Config("this program was built without the feature `sqlite`".to_owned()))
}

impl Drop for TestDatabase {
    // A test's output is the place for both messages.
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the database of this test is kept: {}", self.url);
            return;
        }
        let dropped = match &self.place {
            #[cfg(feature = "postgres")]
            Place::Server { server, name } => {
                let (server, name) = (server.clone(), name.clone());
                on_a_thread(async move { pg_database::drop(&server, &name).await })
            }
            #[cfg(feature = "sqlite")]
            Place::File(file) => remove(file).map_err(|error| StorageError::Refused(error.into())),
        };
        if let Err(problem) = dropped {
            eprintln!("the database of this test could not be dropped: {}: {problem}", self.url);
        }
    }
}

/// Removes a SQLite file and the files beside it.
#[cfg(feature = "sqlite")]
fn remove(file: &Path) -> std::io::Result<()> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let beside = PathBuf::from(format!("{}{end}", file.display()));
        match std::fs::remove_file(beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
