//! `#[diesel_jobs::test]`: opens the connection of a test, begins its transaction and runs it.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

use super::migrations::{self, UserMigration};
use super::store::TestConnection;

/// Diesel's own name for the directory of migrations.
const DIRECTORY: &str = "migrations";

/// Where the application's tables of a test come from. `#[diesel_jobs::test]` makes it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct TestSettings {
    /// The directory of the package.
    pub package: &'static str,
    /// A directory of migrations in it. Without it the package's directory `migrations`, if there is one.
    pub migrations: Option<&'static str>,
}

impl TestSettings {
    fn read(self) -> StorageResult<Migrations> {
        let directory = Path::new(self.package).join(self.migrations.unwrap_or(DIRECTORY));
        if self.migrations.is_none() && !directory.exists() {
            return Ok(Migrations(Vec::new()));
        }
        let mut all = migrations::read(&directory)?;
        all.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(Migrations(all))
    }
}

/// The migrations of the application.
#[doc(hidden)]
#[derive(Debug)]
pub struct Migrations(pub(super) Vec<UserMigration>);

/// A connection that `#[diesel_jobs::test]` can open.
#[async_trait]
#[cfg_attr(
    all(feature = "postgres-sync", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "a test cannot be given a `{Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres-sync")),
    diagnostic::on_unimplemented(
        message = "a test cannot be given a `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, and a PgConnection needs `features = [\"postgres-sync\"]`"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "a test cannot be given a `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, a PgConnection needs `features = [\"postgres-sync\"]`, and a SqliteConnection needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection that `#[diesel_jobs::test]` can open",
    note = "a test takes `&mut` to a PgConnection, an AsyncPgConnection, a SqliteConnection or a SyncConnectionWrapper of it; for another one open it in \
            the test, under `#[test]`"
)]
pub trait TestSession: TestConnection {
    /// Opens a connection to a database with these tables and those of `diesel-jobs`, and begins the transaction of the
    /// test.
    #[doc(hidden)]
    async fn open(migrations: Migrations) -> StorageResult<Self>;
}

/// A sync connection that `#[diesel_jobs::test]` can open.
#[cfg_attr(
    all(feature = "postgres-sync", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "a test that is no `async fn` cannot be given a `{Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres-sync")),
    diagnostic::on_unimplemented(
        message = "a test that is no `async fn` cannot be given a `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, and a PgConnection needs `features = [\"postgres-sync\"]`"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "a test that is no `async fn` cannot be given a `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, a PgConnection needs `features = [\"postgres-sync\"]`, and a SqliteConnection needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a sync connection",
    note = "write `async fn` for an AsyncPgConnection or a SyncConnectionWrapper; a plain `fn` takes `&mut` to a PgConnection or a SqliteConnection"
)]
pub trait SyncTestSession: TestSession {}

/// What the function of `setup = ..` returns: nothing, or a `Result`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the function of `setup` returns a `{Self}`",
    label = "must return nothing or a `Result`",
    note = "`setup` takes a `fn(&mut C)`, or an `async fn(&mut C)` above an `async fn`, where `C` is the test's connection"
)]
pub trait Prepared {
    /// Panics with the error.
    fn done(self);
}

impl Prepared for () {
    fn done(self) {}
}

impl<T, E: Debug> Prepared for Result<T, E> {
    #[track_caller]
    #[expect(clippy::panic, reason = "a test whose set-up failed")]
    fn done(self) {
        if let Err(error) = self {
            panic!("the `setup` of this test failed: {error:?}");
        }
    }
}

/// Runs a test on a new connection, in a transaction that is rolled back.
#[doc(hidden)]
#[track_caller]
pub fn run_test<C: SyncTestSession, R>(settings: TestSettings, test: impl FnOnce(&mut C) -> R) -> R {
    // The test itself does not run on the runtime, because plain functions may block.
    let mut conn: C = match runtime().and_then(|runtime| runtime.block_on(open(settings))) {
        Ok(conn) => conn,
        Err(problem) => not_opened(&problem),
    };
    test(&mut conn)
}

/// Runs an async test on a runtime of one thread.
#[doc(hidden)]
#[track_caller]
pub fn run_async_test<C: TestSession, R>(settings: TestSettings, test: impl AsyncFnOnce(&mut C) -> R) -> R {
    let run = runtime().and_then(|runtime| {
        runtime.block_on(async {
            let mut conn: C = open(settings).await?;
            Ok(test(&mut conn).await)
        })
    });
    run.unwrap_or_else(|problem| not_opened(&problem))
}

async fn open<C: TestSession>(settings: TestSettings) -> StorageResult<C> {
    C::open(settings.read()?).await
}

fn runtime() -> StorageResult<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| StorageError::Unavailable(error.into()))
}

#[track_caller]
#[expect(clippy::panic, reason = "a test that cannot run")]
fn not_opened(problem: &StorageError) -> ! {
    panic!("the connection of this test cannot be opened: {problem}");
}
