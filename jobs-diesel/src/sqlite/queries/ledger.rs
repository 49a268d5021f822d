//! The ledger of applied schema versions. This file has only the statements, because both sync and async connections
//! run them.

use diesel::dsl::{auto_type, count_star};
use diesel::prelude::*;

use crate::sqlite::schema::{jobs_schema_migration, sqlite_master};

/// Takes the write lock, so that two programs that migrate at the same time do it one after the other. Not every
/// connection of an application can `begin immediate`, and inside a transaction no connection can. Every connection can
/// create a table and drop it, and this leaves nothing behind.
pub(crate) const LOCK: &str = "create table jobs_migrating (x integer); drop table jobs_migrating";

/// Returns 1 if there is a ledger, otherwise 0.
#[auto_type(no_type_alias)]
pub(crate) fn exists() -> _ {
    sqlite_master::table.filter(sqlite_master::name.eq("jobs_schema_migration")).select(count_star())
}

/// The rows of the ledger, ordered by version.
#[auto_type(no_type_alias)]
pub(crate) fn rows() -> _ {
    jobs_schema_migration::table.order(jobs_schema_migration::version)
}
