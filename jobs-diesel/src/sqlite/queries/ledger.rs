//! The ledger of the schema's versions. Statements only: sync and async connections run them.

use diesel::dsl::{auto_type, count_star};
use diesel::prelude::*;

use crate::sqlite::schema::{jobs_schema_migration, sqlite_master};

/// Takes the write lock, so that two programs that migrate at once do it one after the other. `begin immediate` is
/// not to be had on every connection of an application, and inside its transactions not at all; a table that is made
/// and dropped is, and leaves nothing.
pub(crate) const LOCK: &str = "create table jobs_migrating (x integer); drop table jobs_migrating";

/// 1 if there is a ledger.
#[auto_type(no_type_alias)]
pub(crate) fn exists() -> _ {
    sqlite_master::table.filter(sqlite_master::name.eq("jobs_schema_migration")).select(count_star())
}

/// Its rows, by version.
#[auto_type(no_type_alias)]
pub(crate) fn rows() -> _ {
    jobs_schema_migration::table.order(jobs_schema_migration::version)
}
