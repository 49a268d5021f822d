//! `output` and `end`: read how a job ended, for sync and async connections.

use diesel::dsl::auto_type;
use diesel::prelude::*;
use diesel_jobs_core::{JobEnd, JobId};

use crate::sqlite::schema::job;
use crate::sqlite::types::State;
use crate::stored_output::{Columns, stored};

/// The query for the output. The row has the type `Columns`.
#[auto_type(no_type_alias)]
pub(crate) fn one_output(id: JobId) -> _ {
    let id: i64 = id.0;
    job::table.filter(job::id.eq(id)).select((job::output, job::output_note))
}

/// Reads how far a job is, and what it left.
pub(crate) fn end(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Option<JobEnd>> {
    let columns = (job::state, job::last_error, (job::output, job::output_note));
    let row: Option<(State, Option<String>, Columns)> =
        job::table.filter(job::id.eq(id.0)).select(columns).first(conn).optional()?;
    Ok(row.map(|(state, error, output)| JobEnd::new(state.0, error, stored(output))))
}
