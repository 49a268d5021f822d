//! `complete`: the fenced completion inside a handler's own transaction, on any connection.

use diesel::prelude::*;
use diesel::query_builder::{QueryFragment, QueryId};
use diesel::sqlite::Sqlite;
use jobs_core::{JobState, Lease, Retention};

use crate::sqlite::literal::literal;
use crate::sqlite::queries::finish::held;
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{Now, after};

/// Moves the job to `completed` if the lease stands: one row, or none. It is kept for as long as jobs are by default.
pub(crate) fn statement(lease: Lease) -> impl QueryFragment<Sqlite> + QueryId + Send {
    diesel::update(held(lease)).set((
        jobs_job::state.eq(literal(JobState::Completed)),
        jobs_job::finished_at.eq(Now.nullable()),
        jobs_job::expires_at.eq(after(Retention::default().completed).nullable()),
    ))
}
