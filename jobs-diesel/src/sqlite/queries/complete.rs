//! `complete`: ends jobs well, many with one statement. Finishes one by one cost more than the handlers of short jobs do.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel_jobs_core::{JobId, Keep, WorkerId};

use crate::sqlite::queries::failures;
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

/// The jobs among these whose lease stands; they are completed now, and kept or deleted as asked.
pub(crate) fn complete(conn: &mut SqliteConnection, alike: Alike, jobs: &[JobId]) -> QueryResult<Vec<JobId>> {
    #[derive(QueryableByName)]
    struct Moved {
        #[diesel(sql_type = BigInt)]
        id: i64,
    }
    // The plus keeps the index on `worker` out of it: each job is found by its id.
    let held = "where id in (select value from json_each(?1)) and lease = ?2 and +worker = ?3 and state = 'running' returning id";
    let list: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let bound = |statement| {
        diesel::sql_query(statement)
            .bind::<Text, _>(format!("[{}]", list.join(",")))
            .bind::<Integer, _>(alike.number)
            .bind::<Text, _>(Worker(alike.worker))
    };
    let keep = match alike.keep {
        Keep::For(time) => Some(micros(time)),
        Keep::Forever => None,
        Keep::Nothing => {
            let deleted: Vec<Moved> = bound(format!("delete from jobs_job {held}")).load(conn)?;
            let deleted: Vec<i64> = deleted.into_iter().map(|job| job.id).collect();
            // There are failures only from a job's second lease on: what records one ends a lease, or is a `cancel`,
            // after which only `retry` brings the job back, and counts a lease for it.
            if alike.number > 1 {
                failures::forget(conn, &deleted)?;
            }
            return Ok(deleted.into_iter().map(JobId).collect());
        }
    };
    let completed =
        bound(format!("update jobs_job set state = 'completed', finished_at = {NOW}, expires_at = {NOW} + ?4 {held}"));
    let moved: Vec<Moved> = completed.bind::<Nullable<BigInt>, _>(keep).load(conn)?;
    Ok(moved.into_iter().map(|moved| JobId(moved.id)).collect())
}
