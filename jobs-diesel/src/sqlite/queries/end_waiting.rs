//! The jobs that `expire` and `end_full` have found are ended together. If the file refuses one of them, they end one
//! by one, and that one is left out for a while. So it stops no other.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::storage::{EndedWaiting, Ends};
use diesel_jobs_core::{JobId, JobState};

use crate::sqlite::queries::admission_failure::note;
use crate::sqlite::queries::keys::Key;

#[derive(QueryableByName)]
pub(super) struct Found {
    #[diesel(sql_type = BigInt)]
    pub(super) id: i64,
    #[diesel(sql_type = Text)]
    pub(super) queue: String,
    #[diesel(sql_type = Text)]
    pub(super) kind: String,
}

/// Ends these jobs, each with `end`.
pub(super) fn end_all(
    conn: &mut SqliteConnection,
    jobs: Vec<Found>,
    state: JobState,
    ends: &mut Ends,
    end: impl Fn(&mut SqliteConnection, i64) -> QueryResult<()>,
) -> QueryResult<()> {
    let is_done = conn.transaction(|conn| jobs.iter().try_for_each(|job| end(conn, job.id))).is_ok();
    for Found { id, queue, kind } in jobs {
        let answer = if is_done { Ok(()) } else { conn.transaction(|conn| end(conn, id)) };
        match answer {
            Ok(()) => ends.ended.push(EndedWaiting { queue, kind, state }),
            Err(error) => {
                ends.refuse(JobId(id), &kind, &queue, &error);
                note(conn, &Key::default(), Some(JobId(id)), error)?;
            }
        }
    }
    Ok(())
}
