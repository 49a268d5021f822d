//! A change of jobs by an application: what happens to which jobs, and why it may fail.

use chrono::{DateTime, Utc};
use diesel::result::Error as DieselError;
use diesel_jobs_core::storage::MAX_RESCHEDULE;
use diesel_jobs_core::{InvalidJob, Selected};

use crate::meaning::{Meaning, has_waited_for_a_lock, is_retryable};

/// What happens to which jobs.
#[derive(Debug)]
#[doc(hidden)]
pub struct JobChange {
    #[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), expect(dead_code))]
    pub(crate) verb: Verb,
    #[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), expect(dead_code))]
    pub(crate) selected: Selected,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Cancel,
    Retry,
    Reschedule(DateTime<Utc>),
}

impl JobChange {
    pub(crate) fn new(verb: Verb, selected: Result<Selected, InvalidJob>) -> Result<Self, ChangeError> {
        if let Verb::Reschedule(at) = verb
            && (at - Utc::now()).to_std().is_ok_and(|ahead| ahead > MAX_RESCHEDULE)
        {
            return Err(ChangeError::TooFarAhead(at));
        }
        Ok(Self { verb, selected: selected? })
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Verb {
    /// As in the audit.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Reschedule(_) => "reschedule",
        }
    }
}

diesel_jobs_core::debug_as_display!(ChangeError);

/// Why jobs were not cancelled, retried or rescheduled.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The job whose unique key was to be found is invalid, or has no unique key. Nothing was sent, and the transaction
    /// is unchanged.
    #[error(transparent)]
    Invalid(#[from] InvalidJob),
    /// The new time is more than a hundred years from now. Nothing was sent, and the transaction is unchanged.
    #[error("jobs cannot be rescheduled to {0}, more than a hundred years from now")]
    TooFarAhead(DateTime<Utc>),
    /// The tables of `diesel-jobs` do not exist in this database.
    #[error(
        "the tables of `diesel-jobs` are missing in this database; run `worker migrate` or `diesel_jobs::migrate(&mut conn)`: {0}"
    )]
    Schema(DieselError),
    /// The database failed.
    #[error("change of a job: {error}{advice}", error = .0, advice = advice(.0))]
    Database(DieselError),
}

/// Advice for errors whose cause is known. Empty for all others.
fn advice(error: &DieselError) -> &'static str {
    match Meaning::of(error) {
        _ if has_waited_for_a_lock(error) => {
            "; another transaction, which is still open, holds a lock that this change needs: roll this transaction back and repeat all of it"
        }
        Meaning::Conflict => {
            "; another transaction has changed the same job since this transaction began to read: roll this transaction back and repeat all of it"
        }
        Meaning::Locked => {
            "; another process writes to this SQLite file, or has written to it since this transaction began to read: roll this transaction back \
             and repeat all of it; make this connection wait with `pragma busy_timeout = 5000`, and begin transactions that read before they \
             change jobs with `immediate_transaction`"
        }
        Meaning::NoPrivilege => {
            "; a role that enqueues and changes jobs needs the privileges that `worker migrate roles` prints for the role jobs_enqueuer"
        }
        _ => "",
    }
}

impl ChangeError {
    /// Whether another transaction got in the way: a serialization failure, a deadlock or the end of `lock_timeout` on
    /// PostgreSQL, a locked database on SQLite. Roll the transaction back and repeat all of it: it may then succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if is_retryable(error))
    }
}

impl From<DieselError> for ChangeError {
    fn from(error: DieselError) -> Self {
        if Meaning::of(&error) == Meaning::NoTables { Self::Schema(error) } else { Self::Database(error) }
    }
}

impl From<ChangeError> for DieselError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Database(error) => error,
            ChangeError::Schema(_) | ChangeError::Invalid(_) | ChangeError::TooFarAhead(_) => {
                Self::QueryBuilderError(Box::new(error))
            }
        }
    }
}
