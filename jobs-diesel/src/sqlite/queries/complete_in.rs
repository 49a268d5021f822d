//! `complete_in`: completes a job inside the handler's own transaction, if its lease is valid. This file has only the
//! statements, because both sync and async connections run them.

use std::time::Duration;

use diesel::prelude::*;
use diesel::query_builder::{QueryFragment, QueryId};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::{JobState, Keep, Lease, Transition};

use crate::sqlite::literal::literal;
use crate::sqlite::queries::finish::held;
use crate::sqlite::schema::{jobs_job, jobs_job_error};
use crate::sqlite::time::{Now, after};

/// What happens to the row of a completed job.
pub(crate) enum Row {
    /// It is deleted together with its failures.
    Goes,
    /// It is kept for this long. `None`: the pruner never deletes it.
    Stays(Option<Duration>),
}

impl Row {
    pub(crate) fn after(transition: &Transition) -> Self {
        match transition {
            Transition::Complete(Keep::Nothing) => Self::Goes,
            Transition::Complete(Keep::For(time)) => Self::Stays(Some(*time)),
            _ => Self::Stays(None),
        }
    }
}

/// Moves the job to `completed` if the lease is valid. Changes one row or none.
pub(crate) fn complete(lease: Lease, keep: Option<Duration>) -> impl QueryFragment<Sqlite> + QueryId + Send {
    diesel::update(held(lease)).set((
        jobs_job::state.eq(literal(JobState::Completed)),
        jobs_job::finished_at.eq(Now.nullable()),
        keep.map(|keep| jobs_job::expires_at.eq(after(keep).nullable())),
    ))
}

/// Deletes the job if the lease is valid. Deletes one row or none.
pub(crate) fn delete(lease: Lease) -> impl QueryFragment<Sqlite> + QueryId + Send {
    diesel::delete(held(lease))
}

/// Deletes the failures of a deleted job.
pub(crate) fn forget(lease: Lease) -> impl QueryFragment<Sqlite> + QueryId + Send {
    diesel::delete(jobs_job_error::table.filter(jobs_job_error::job_id.eq(lease.job.0)))
}
