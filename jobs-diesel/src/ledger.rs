//! What the ledger of the schema's versions tells a program: what it has to apply, and whether it can serve what is there.

use diesel::Queryable;
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

use crate::error::MigrateError;
use crate::migrations::Migration;

/// One row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Queryable)]
pub(crate) struct Applied {
    pub(crate) version: i32,
    /// The oldest version whose programs still work on this one; `None` if only its own do.
    pub(crate) oldest_program: Option<i32>,
}

/// The newest version of these: what a program knows.
fn newest(known: &[Migration]) -> i32 {
    known.last().map_or(0, |migration| migration.version)
}

/// The newest version in the database, unless a later program has made it one that this program cannot serve.
fn found(known: &[Migration], ledger: &[Applied]) -> Result<Option<i32>, MigrateError> {
    let known = newest(known);
    match ledger.iter().max_by_key(|applied| applied.version) {
        Some(&Applied { version, oldest_program }) if version > known && oldest_program.is_none_or(|it| it > known) => {
            Err(MigrateError::Newer { found: version, known })
        }
        newest => Ok(newest.map(|applied| applied.version)),
    }
}

/// What this program has to apply, oldest first; nothing where a later program has gone further.
pub(crate) fn missing(
    known: &'static [Migration],
    ledger: &[Applied],
) -> Result<Vec<&'static Migration>, MigrateError> {
    let found = found(known, ledger)?.unwrap_or(0);
    let is_there = |migration: &Migration| ledger.iter().any(|applied| applied.version == migration.version);
    Ok(known.iter().filter(|migration| found <= newest(known) && !is_there(migration)).collect())
}

/// What this program would revert. What a later program has applied it does not know how to.
pub(crate) fn newest_applied(
    known: &'static [Migration],
    ledger: &[Applied],
) -> Result<Option<&'static Migration>, MigrateError> {
    match found(known, ledger)? {
        Some(found) if found > newest(known) => Err(MigrateError::Newer { found, known: newest(known) }),
        found => Ok(known.iter().find(|migration| Some(migration.version) == found)),
    }
}

/// One line that says what to do, unless this program can serve the schema.
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
