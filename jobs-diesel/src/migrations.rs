//! The schema's versions, embedded. The ledger is our own table: rows of ours in diesel's would break the
//! application's `diesel migration revert`. Each `up.sql` enters itself into the ledger, so that it is the same
//! whether `worker migrate` or `diesel migration run` applies it.

use async_trait::async_trait;
use diesel_jobs_core::storage::StorageResult;

use crate::backend::Backend;

/// One version of the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    /// From 1, without gaps.
    pub version: i32,
    /// The name of its directory, without the number.
    pub name: &'static str,
    /// Takes the schema from the version before to this one.
    pub up: &'static str,
    /// Takes it back.
    pub down: &'static str,
}

impl Migration {
    /// The name of its directory among an application's own Diesel migrations. Never changes: copies are found again by it.
    ///
    /// Diesel orders by what stands before the first `_`, runs whatever is missing, and reverts and repeats the last. So
    /// these stand at the very beginning, after `diesel setup`'s own: before every migration of the application that could
    /// use them, and never the last where the application has any, whenever they are copied.
    pub fn folder(&self) -> String {
        format!("0000-00-00-{version:06}_jobs_{version:04}_{name}", version = self.version, name = self.name)
    }
}

/// The schema's versions for a database, the first one first.
pub fn of(backend: Backend) -> &'static [Migration] {
    match backend {
        Backend::Postgres => POSTGRES,
        Backend::Sqlite => SQLITE,
    }
}

/// What becomes of jobs that wait or run when a version is reverted that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveJobs {
    /// They are kept: the version stays.
    Keep,
    /// They are deleted with it.
    Delete,
}

macro_rules! migration {
    ($version:literal, $backend:literal, $number:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            up: include_str!(concat!("../migrations/", $backend, "/", $number, "_", $name, "/up.sql")),
            down: include_str!(concat!("../migrations/", $backend, "/", $number, "_", $name, "/down.sql")),
        }
    };
}

/// The schema of PostgreSQL.
pub static POSTGRES: &[Migration] = &[migration!(1, "postgres", "0001", "jobs")];

/// What makes and grants the roles of enqueuers and workers on PostgreSQL. For an administrator to run: no version of the
/// schema depends on it.
pub static POSTGRES_ROLES: &str = include_str!("../migrations/postgres/roles.sql");

/// The schema of SQLite.
pub static SQLITE: &[Migration] = &[migration!(1, "sqlite", "0001", "jobs")];

/// Moves a database from version to version.
#[async_trait]
pub trait Migrator: Send + Sync {
    /// All versions this program knows, oldest first.
    fn known(&self) -> &'static [Migration];

    /// The versions in the database's ledger, ascending; none if there is no ledger.
    async fn applied(&self) -> StorageResult<Vec<i32>>;

    /// Applies what is missing, each version in a transaction of its own, under a lock. Returns what it applied.
    async fn up(&self) -> StorageResult<Vec<&'static Migration>>;

    /// Reverts the newest version. Returns it, or `None` when there is none. What would delete jobs that wait or run is
    /// refused, by the version's own SQL, unless `live` allows it.
    async fn down(&self, live: LiveJobs) -> StorageResult<Option<&'static Migration>>;
}

#[cfg(test)]
mod tests {
    use super::{POSTGRES, SQLITE};

    /// As Diesel makes it from a folder's name.
    fn version(folder: &str) -> String {
        folder.split('_').next().unwrap().replace('-', "")
    }

    #[test]
    fn copies_come_after_diesels_own_and_before_every_other_in_the_order_of_their_versions() {
        for migrations in [POSTGRES, SQLITE] {
            let ours: Vec<String> = migrations.iter().map(|migration| version(&migration.folder())).collect();
            assert!(ours.is_sorted() && ours.iter().all(|ours| ours.len() == 14), "{ours:?}");
            for ours in &ours {
                assert!(ours.as_str() > "00000000000000", "diesel_initial_setup");
                for theirs in ["2015-12-01-120000_first", "2026-11-22-180000_orders", "0001_numbered", "1_counted"] {
                    assert!(*ours < version(theirs), "{theirs}");
                }
            }
        }
    }
}
