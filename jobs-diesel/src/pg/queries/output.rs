//! `output` and `end`: read how a job ended, through the view. So a role may be granted these columns alone.

use diesel::dsl::auto_type;
use diesel::prelude::*;
use diesel_jobs_core::{JobEnd, JobId};

use super::inspect::parsed;
use crate::pg::native::RawJson;
use crate::pg::schema::job;
use crate::stored_output::{Columns, stored};

/// The query for the output, for sync and async connections. The row has the type [`OutputRow`].
#[auto_type(no_type_alias)]
pub(crate) fn one_output(id: JobId) -> _ {
    let id: i64 = id.0;
    job::table.filter(job::id.eq(id)).select((job::output, job::output_note))
}

#[derive(Queryable)]
pub(crate) struct OutputRow {
    value: Option<RawJson>,
    note: Option<String>,
}

impl OutputRow {
    pub(crate) fn into_columns(self) -> Columns {
        (self.value.map(|json| String::from_utf8_lossy(&json.0).into_owned()), self.note)
    }
}

/// The query for the end. The row has the type [`EndRow`].
#[auto_type(no_type_alias)]
pub(crate) fn one_end(id: JobId) -> _ {
    let id: i64 = id.0;
    job::table.filter(job::id.eq(id)).select((job::state, job::last_error, (job::output, job::output_note)))
}

pub(crate) type EndRow = (String, Option<String>, OutputRow);

pub(crate) fn end((state, error, output): EndRow) -> JobEnd {
    JobEnd::new(parsed(&state), error, stored(output.into_columns()))
}
