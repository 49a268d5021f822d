//! The versions of the schema, which are embedded in the program. A table of our own is the ledger of the applied
//! versions, because rows of ours in Diesel's table would break the application's `diesel migration revert`. Each
//! `up.sql` inserts its own row into the ledger, so the result is the same whether `worker migrate` or `diesel
//! migration run` applies it.

use async_trait::async_trait;
use diesel_jobs_core::storage::StorageResult;

use crate::backend::Backend;

/// One version of the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    /// The version. Versions start at 1 and have no gaps.
    pub version: i32,
    /// The name of its directory, without the number.
    pub name: &'static str,
    /// The SQL that migrates the schema from the previous version to this one.
    pub up: &'static str,
    /// The SQL that reverts this version.
    pub down: &'static str,
}

impl Migration {
    /// The name of its directory among an application's own Diesel migrations. This name never changes, because
    /// existing copies are recognized by it.
    ///
    /// Diesel orders migrations by the part of the name before the first `_`. It runs all that are missing, and reverts
    /// or redoes the last one. Our names therefore sort directly after the migration of `diesel setup`: whenever they
    /// are copied, they come before every migration of the application that could depend on them, and if the
    /// application has any migration, ours are never the last.
    pub fn folder(&self) -> String {
        format!("0000-00-00-{version:06}_jobs_{version:04}_{name}", version = self.version, name = self.name)
    }
}

/// The versions of the schema for this database, oldest first.
pub fn of(backend: Backend) -> &'static [Migration] {
    match backend {
        Backend::Postgres => POSTGRES,
        Backend::Sqlite => SQLITE,
    }
}

/// What happens to waiting and running jobs when the version of the schema that they need is reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveJobs {
    /// Keeps them, and does not revert the version.
    Keep,
    /// Deletes them together with the version.
    Delete,
}

/// Joins the files of a version in their order.
macro_rules! migration {
    ($version:literal, $name:literal, $folder:literal, [$first:literal $(, $further:literal)* $(,)?]) => {
        Migration {
            version: $version,
            name: $name,
            up: concat!(
                include_str!(concat!("../migrations/", $folder, "/up/", $first, ".sql")),
                $("\n", include_str!(concat!("../migrations/", $folder, "/up/", $further, ".sql"))),*
            ),
            down: include_str!(concat!("../migrations/", $folder, "/down.sql")),
        }
    };
}

/// The schema of PostgreSQL.
pub static POSTGRES: &[Migration] = &[migration!(
    1,
    "jobs",
    "postgres/0001_jobs",
    [
        "01_jobs",
        "02_failures",
        "03_workers",
        "04_held",
        "05_unique",
        "06_view",
        "07_rules",
        "08_enqueue",
        "09_enqueue_unique",
        "10_free",
        "11_fair",
        "12_several",
        "13_admit",
        "14_sweep",
        "15_full",
        "16_change",
    ]
)];

/// The SQL that creates the roles of enqueuers and workers on PostgreSQL and grants them their rights. An administrator
/// runs it; no version of the schema depends on it.
pub static POSTGRES_ROLES: &str = include_str!("../migrations/postgres/roles.sql");

/// The schema of SQLite.
pub static SQLITE: &[Migration] = &[migration!(1, "jobs", "sqlite/0001_jobs", ["01_jobs", "02_limits"])];

/// Applies and reverts the versions of the schema in a database.
#[async_trait]
pub trait Migrator: Send + Sync {
    /// All versions that this program knows, oldest first.
    fn known(&self) -> &'static [Migration];

    /// The versions in the ledger of the database, in ascending order. Empty if there is no ledger.
    async fn applied(&self) -> StorageResult<Vec<i32>>;

    /// Applies the missing versions under a lock, each in a transaction of its own, and returns those that it applied.
    async fn up(&self) -> StorageResult<Vec<&'static Migration>>;

    /// Reverts the newest version and returns it, or returns `None` if there is none. If this would delete waiting or
    /// running jobs, it fails unless `live` allows it.
    async fn down(&self, live: LiveJobs) -> StorageResult<Option<&'static Migration>>;
}

#[cfg(test)]
mod tests {
    use super::{POSTGRES, SQLITE};

    /// The version that Diesel derives from a folder's name.
    fn version(folder: &str) -> String {
        folder.split('_').next().unwrap().replace('-', "")
    }

    /// In other literals, the setting `standard_conforming_strings` of the caller decides what a backslash means.
    #[test]
    fn each_literal_with_a_backslash_is_an_escape_string() {
        for line in POSTGRES.iter().flat_map(|migration| migration.up.lines()).filter(|line| line.contains('\\')) {
            let parts: Vec<&str> = line.split('\'').collect();
            let is_escaped = |pair: &[&str]| !pair[1].contains('\\') || pair[0].ends_with('E');
            assert!(line.trim_start().starts_with("--") || parts.chunks_exact(2).all(is_escaped), "{line}");
        }
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
