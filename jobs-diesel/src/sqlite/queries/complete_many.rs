//! `complete_many`: ends jobs well, many with one statement. Finishes one by one cost more than the handlers of short jobs do.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use jobs_core::{JobId, Keep, WorkerId};

use crate::sqlite::time::{NOW, micros};
use crate::sqlite::types::Worker;

/// What completions have in common that one statement can write.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    pub(crate) worker: WorkerId,
    /// The lease's number: 1 for nearly all.
    pub(crate) number: i32,
    pub(crate) keep: Keep,
}

/// The jobs among these whose lease stands; they are completed now, and kept.
pub(crate) fn complete_many(conn: &mut SqliteConnection, alike: Alike, jobs: &[JobId]) -> QueryResult<Vec<JobId>> {
    #[derive(QueryableByName)]
    struct Moved {
        #[diesel(sql_type = BigInt)]
        id: i64,
    }
    let list: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let keep = match alike.keep {
        Keep::For(time) => Some(micros(time)),
        Keep::Forever | Keep::Nothing => None,
    };
    // The plus keeps the index on `worker` out of it: each job is found by its id.
    let moved: Vec<Moved> = diesel::sql_query(format!(
        "update jobs_job set state = 'completed', finished_at = {NOW}, expires_at = {NOW} + ?
         where id in (select value from json_each(?)) and lease = ? and +worker = ? and state = 'running'
         returning id"
    ))
    .bind::<Nullable<BigInt>, _>(keep)
    .bind::<Text, _>(format!("[{}]", list.join(",")))
    .bind::<Integer, _>(alike.number)
    .bind::<Text, _>(Worker(alike.worker))
    .load(conn)?;
    Ok(moved.into_iter().map(|moved| JobId(moved.id)).collect())
}
