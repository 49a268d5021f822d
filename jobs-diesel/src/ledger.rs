//! What a program derives from the ledger, the table of applied schema versions: which migrations it must apply, and
//! whether it can serve the schema.

use diesel::Queryable;
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::{Finding, StorageResult};

use crate::error::MigrateError;
use crate::migrations::Migration;

/// One row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Queryable)]
pub(crate) struct Applied {
    pub(crate) version: i32,
    /// The oldest schema version whose programs still work on this version. `None` if only programs of this version do.
    pub(crate) oldest_program: Option<i32>,
}

/// The newest version that this program knows. 0 if there is none.
fn newest(known: &[Migration]) -> i32 {
    known.last().map_or(0, |migration| migration.version)
}

/// Returns the newest version in the database, `None` if the ledger is empty. Fails if a later program has applied a
/// version that this program cannot serve.
fn found(known: &[Migration], ledger: &[Applied]) -> Result<Option<i32>, MigrateError> {
    let known = newest(known);
    match ledger.iter().max_by_key(|applied| applied.version) {
        Some(&Applied { version, oldest_program }) if version > known && oldest_program.is_none_or(|it| it > known) => {
            Err(MigrateError::Newer { found: version, known })
        }
        newest => Ok(newest.map(|applied| applied.version)),
    }
}

/// Returns the migrations that this program must apply, oldest first. Returns none if a later program has applied newer
/// ones. Fails if this program cannot serve the schema.
pub(crate) fn missing(
    known: &'static [Migration],
    ledger: &[Applied],
) -> Result<Vec<&'static Migration>, MigrateError> {
    let found = found(known, ledger)?.unwrap_or(0);
    let is_there = |migration: &Migration| ledger.iter().any(|applied| applied.version == migration.version);
    Ok(known.iter().filter(|migration| found <= newest(known) && !is_there(migration)).collect())
}

/// Returns the migration that this program would revert: the newest one in the database. Fails if a later program has
/// applied it, because this program does not know how to revert it.
pub(crate) fn newest_applied(
    known: &'static [Migration],
    ledger: &[Applied],
) -> Result<Option<&'static Migration>, MigrateError> {
    match found(known, ledger)? {
        Some(found) if found > newest(known) => Err(MigrateError::Newer { found, known: newest(known) }),
        found => Ok(known.iter().find(|migration| Some(migration.version) == found)),
    }
}

/// Fails with one line of advice if this program cannot serve the schema.
pub(crate) fn check(known: &'static [Migration], ledger: &[Applied]) -> StorageResult<()> {
    let problem = match (found(known, ledger)?, missing(known, ledger)?.first()) {
        (None, _) => "the tables of `diesel-jobs` are missing in this database; run `worker migrate`".to_owned(),
        (Some(found), Some(missing)) => format!(
            "the schema of `diesel-jobs` is at version {found} and lacks {:04}_{}, which this program needs; run this program's \
             `worker migrate`",
            missing.version, missing.name
        ),
        (Some(found), None) => {
            if found > newest(known) {
                tracing::info!(
                    target: "diesel_jobs", { schema.version = found,
                    program.version = newest(known) }, "the schema is a later version's, which still serves this program");
            }
            return Ok(());
        }
    };
    Err(StorageError::Schema(problem))
}

/// What the doctor says if this program cannot serve the schema.
pub(crate) fn finding(known: &'static [Migration], ledger: &[Applied]) -> Option<Finding> {
    let problem = check(known, ledger).err()?;
    let is_newer = found(known, ledger).is_err();
    let repair = if is_newer { "deploy a program that is as new as the schema" } else { "worker migrate" };
    Some(Finding::error("schema", problem.to_string(), repair))
}
