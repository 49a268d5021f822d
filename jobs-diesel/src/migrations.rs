//! The schema's versions, embedded. The ledger is our own table: rows of ours in diesel's would break the
//! application's `diesel migration revert`. Each `up.sql` enters itself into the ledger, so that it is the same
//! whether `worker migrate` or `diesel migration run` applies it.

use async_trait::async_trait;
use jobs_core::storage::StorageResult;

/// One version of the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    /// From 1, without gaps.
    pub version: i32,
    /// The name of its directory, without the number.
    pub name: &'static str,
    /// Its place among an application's own Diesel migrations, as their time stamps are written. Never changes: copies
    /// are found again by it. The first one stands before every migration that could use it.
    pub created: &'static str,
    /// Takes the schema from the version before to this one.
    pub up: &'static str,
    /// Takes it back.
    pub down: &'static str,
}

macro_rules! migration {
    ($version:literal, $backend:literal, $number:literal, $name:literal, $created:literal) => {
        Migration {
            version: $version,
            name: $name,
            created: $created,
            up: include_str!(concat!("../migrations/", $backend, "/", $number, "_", $name, "/up.sql")),
            down: include_str!(concat!("../migrations/", $backend, "/", $number, "_", $name, "/down.sql")),
        }
    };
}

/// The schema of PostgreSQL.
pub static POSTGRES: &[Migration] = &[migration!(1, "postgres", "0001", "jobs", "2026-01-01-000001")];

/// What makes and grants the roles of enqueuers and workers on PostgreSQL. For an administrator to run: no version of the
/// schema depends on it.
pub static POSTGRES_ROLES: &str = include_str!("../migrations/postgres/roles.sql");

/// The schema of SQLite.
pub static SQLITE: &[Migration] = &[migration!(1, "sqlite", "0001", "jobs", "2026-01-01-000001")];

/// Moves a database from version to version.
#[async_trait]
pub trait Migrator: Send + Sync {
    /// All versions this program knows, oldest first.
    fn known(&self) -> &'static [Migration];

    /// The versions in the database's ledger, ascending; none if there is no ledger.
    async fn applied(&self) -> StorageResult<Vec<i32>>;

    /// Applies what is missing, each version in a transaction of its own, under a lock. Returns what it applied.
    async fn up(&self) -> StorageResult<Vec<&'static Migration>>;

    /// Reverts the newest version. Returns it, or `None` when there is none.
    async fn down(&self) -> StorageResult<Option<&'static Migration>>;
}
