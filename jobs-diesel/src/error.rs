//! The errors of calls on the user's own connection. `?` converts each of them to a `diesel::result::Error`. So it can
//! leave a transaction closure, and the transaction is rolled back. The text of each error contains the message of the
//! database, and a field holds the database's error. This error is not the `source()`, so that a printed chain of
//! causes contains the message only once.

use diesel::result::Error as DieselError;
use diesel_jobs_core::{InvalidJob, JobId, StorageError};

use crate::meaning::{Meaning, has_waited_for_a_lock, is_retryable};

diesel_jobs_core::debug_as_display!(EnqueueError, CompleteError, MigrateError);

/// Why a job was not enqueued.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The job is invalid. Nothing was sent, and the transaction is unchanged.
    #[error(transparent)]
    Invalid(#[from] InvalidJob),
    /// Another job has the unique key, and the rule of this one says `error`. Nothing was enqueued, and the transaction
    /// is usable.
    #[error("job `{kind}`: job {id} already has the unique key {key}")]
    Exists {
        /// The kind of the job.
        kind: String,
        /// The key.
        key: String,
        /// The job that has it.
        id: JobId,
    },
    /// The tables of `diesel-jobs` do not exist in this database.
    #[error(
        "the tables of `diesel-jobs` are missing in this database; run `worker migrate` or `diesel_jobs::migrate(&mut conn)`: {0}"
    )]
    Schema(DieselError),
    /// The database failed.
    #[error("enqueue: {error}{advice}", error = .0, advice = advice(.0))]
    Database(DieselError),
}

/// Advice for errors whose cause is known. Empty for all others.
fn advice(error: &DieselError) -> &'static str {
    match Meaning::of(error) {
        _ if has_waited_for_a_lock(error) => {
            "; another transaction, which is still open, holds a lock that this enqueue needs, such as one that has enqueued the same unique key: \
             roll this transaction back and repeat all of it. If this is a test, another test has probably enqueued a job with the same unique \
             key: give each test its own values, or use a TestDatabase"
        }
        Meaning::Conflict => {
            "; another transaction got in the way, such as one that has enqueued the same unique key since this transaction began to read: roll \
             this transaction back and repeat all of it"
        }
        Meaning::Locked => {
            "; another process writes to this SQLite file, or has written to it since this transaction began to read: roll this transaction back \
             and repeat all of it; make this connection wait with `pragma busy_timeout = 5000`, and begin transactions that read before they \
             enqueue with `immediate_transaction`"
        }
        Meaning::NoPrivilege => {
            "; a role that enqueues needs the privileges that `worker migrate roles` prints for the role jobs_enqueuer"
        }
        Meaning::MixedUp => MIXED_UP,
        _ => "",
    }
}

impl EnqueueError {
    /// Whether the job is invalid. Then nothing was sent, and the transaction can continue without the job.
    pub fn is_invalid_job(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }

    /// Whether another job has the unique key. Then nothing was enqueued, and the transaction can continue.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Exists { .. })
    }

    /// Whether another transaction got in the way: a serialization failure, a deadlock or the end of `lock_timeout` on
    /// PostgreSQL, a locked database on SQLite. Roll the transaction back and repeat all of it, including what came
    /// before the enqueue: the same transaction may then succeed.
    ///
    /// In a `repeatable read` or `serializable` transaction this is the result if another transaction has enqueued the
    /// same unique key, and has committed after this one began to read: no statement of this transaction can see that
    /// job. In `read committed`, the default, the enqueue finds the job.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if is_retryable(error))
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn exists(job: &diesel_jobs_core::NewJob, id: JobId) -> Self {
        let key = job.unique.as_ref().map(|unique| unique.key.clone()).unwrap_or_default();
        Self::Exists { kind: job.kind.to_string(), key, id }
    }
}

impl From<DieselError> for EnqueueError {
    fn from(error: DieselError) -> Self {
        if Meaning::of(&error) == Meaning::NoTables { Self::Schema(error) } else { Self::Database(error) }
    }
}

impl From<EnqueueError> for DieselError {
    fn from(error: EnqueueError) -> Self {
        match error {
            EnqueueError::Database(error) => error,
            EnqueueError::Schema(_) | EnqueueError::Invalid(_) | EnqueueError::Exists { .. } => {
                Self::QueryBuilderError(Box::new(error))
            }
        }
    }
}

/// Why a job could not be completed inside a transaction.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// The attempt no longer holds its lease. Roll the transaction back.
    #[error("{0} is lost: the job was rescued, cancelled or finished elsewhere; this transaction must not commit")]
    LeaseLost(diesel_jobs_core::Lease),
    /// The connection is not in a transaction, so the job and the handler's writes could not be committed together.
    #[error("complete_in needs a transaction: call it inside `conn.transaction(..)`")]
    NoTransaction,
    /// The database failed.
    #[error("complete_in: {0}")]
    Database(DieselError),
}

impl From<DieselError> for CompleteError {
    fn from(error: DieselError) -> Self {
        Self::Database(error)
    }
}

impl From<CompleteError> for DieselError {
    fn from(error: CompleteError) -> Self {
        match error {
            CompleteError::Database(error) => error,
            CompleteError::LeaseLost(_) | CompleteError::NoTransaction => Self::QueryBuilderError(Box::new(error)),
        }
    }
}

/// Why a migration of the schema failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// A newer program has migrated the database, and this program cannot serve that version, or cannot revert it.
    #[error(
        "the database's schema of `diesel-jobs` is at version {found}, this program's is {known}, which it does not serve: deploy the newer program everywhere"
    )]
    Newer {
        /// The newest version in the database.
        found: i32,
        /// The newest version in this program.
        known: i32,
    },
    /// The database cannot store every text. Nothing was changed.
    #[error(
        "the encoding of this database is {0}, in which not every text can be stored, and `diesel-jobs` needs UTF8: create another database \
         with `create database .. encoding 'UTF8' template template0`, and move your data to it with pg_dump and pg_restore"
    )]
    Encoding(String),
    /// The database has a schema `jobs` of somebody else. Nothing was changed.
    #[error(
        "this database already has a schema `jobs`, without the tables of `diesel-jobs`: rename it (`alter schema jobs rename to ..`), \
         or migrate another database, because `diesel-jobs` needs this name"
    )]
    SchemaTaken,
    /// The tables are there, but the table of applied versions has no row. Nothing was changed.
    #[error(
        "the tables of `diesel-jobs` exist in this database, but `{ledger}`, which has their version, is empty, as after tests that empty all \
         tables: if no job is left in them, {anew} and migrate again, and otherwise restore its rows from a backup; whatever empties tables \
         must leave this one out"
    )]
    Emptied {
        /// The table of applied versions.
        ledger: &'static str,
        /// How to begin anew.
        anew: &'static str,
    },
    /// The role may not create the schema `jobs`. Nothing was changed.
    #[error(
        "the role {role} may not create the schema `jobs` in the database {database}: run `grant create on database {database} to {role}` as the \
         owner of the database, or migrate as the owner"
    )]
    MayNotCreate {
        /// The role, as SQL writes it.
        role: String,
        /// The database, as SQL writes it.
        database: String,
    },
    /// A migration failed and was rolled back.
    #[error("migration {version:04}_{name}: {error}")]
    Failed {
        /// Its version.
        version: i32,
        /// Its name.
        name: &'static str,
        /// The error of the database.
        error: DieselError,
    },
    /// Other transactions used the tables for as long as the migration waited. Nothing was changed.
    #[error(
        "migration {version:04}_{name} was not applied, because transactions that use the tables of `diesel-jobs` did not end: {users}; \
         end them, or migrate again later"
    )]
    Busy {
        /// Its version.
        version: i32,
        /// Its name.
        name: &'static str,
        /// The sessions.
        users: String,
    },
    /// Something else in the schema `jobs` has the name of an index of this version. Nothing was changed.
    #[error(
        "migration {version:04}_{name} was not applied, because jobs.{index}, the name of one of its indexes, is something else in this database: \
         rename that, and migrate again"
    )]
    NameTaken {
        /// Its version.
        version: i32,
        /// Its name.
        name: &'static str,
        /// The name of the index.
        index: &'static str,
    },
    /// The database failed.
    #[error("migrate: {0}")]
    Database(DieselError),
}

impl From<DieselError> for MigrateError {
    fn from(error: DieselError) -> Self {
        Self::Database(error)
    }
}

impl From<MigrateError> for DieselError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Database(error) => error,
            MigrateError::Newer { .. }
            | MigrateError::Encoding(_)
            | MigrateError::SchemaTaken
            | MigrateError::Emptied { .. }
            | MigrateError::MayNotCreate { .. }
            | MigrateError::Failed { .. }
            | MigrateError::Busy { .. }
            | MigrateError::NameTaken { .. } => Self::QueryBuilderError(Box::new(error)),
        }
    }
}

impl From<MigrateError> for StorageError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Newer { .. } => Self::Schema(error.to_string()),
            MigrateError::Encoding(_) => Self::Config(error.to_string()),
            MigrateError::SchemaTaken
            | MigrateError::Emptied { .. }
            | MigrateError::MayNotCreate { .. }
            | MigrateError::Failed { .. }
            | MigrateError::Busy { .. }
            | MigrateError::NameTaken { .. } => Self::Refused(Box::new(error)),
            MigrateError::Database(error) => storage_error(error),
        }
    }
}

/// Converts a database error: to `Unavailable` if a retry may succeed, to `Schema` if the tables are missing, and to
/// `Refused` otherwise.
pub(crate) fn storage_error(error: DieselError) -> StorageError {
    match Meaning::of(&error) {
        Meaning::Conflict | Meaning::Transient | Meaning::Locked => StorageError::Unavailable(Box::new(error)),
        Meaning::NoTables => StorageError::Schema(format!(
            "the tables of `diesel-jobs` are missing in this database; run `worker migrate` (the database said: {error})"
        )),
        Meaning::NoPrivilege => StorageError::Refused(
            format!("{error}; a worker's role needs the privileges that `worker migrate roles` prints for the role jobs_worker")
                .into(),
        ),
        Meaning::ReadOnly => StorageError::Refused(format!("{error}{READ_ONLY}").into()),
        Meaning::MixedUp => StorageError::Refused(format!("{error}{MIXED_UP}").into()),
        Meaning::Other => StorageError::Refused(Box::new(error)),
    }
}

const READ_ONLY: &str = "; this server takes no writes, as a standby does: set DATABASE_URL to the primary, or list all hosts and \
    add target_session_attrs=read-write";

const MIXED_UP: &str = "; if the connection goes through a pooler in transaction mode, the pooler must support prepared \
    statements: PgBouncer does so from version 1.21 on with max_prepared_statements = 200";

#[cfg(test)]
mod tests;
