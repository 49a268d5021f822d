//! `complete`: completes many jobs with one statement. To finish them one by one costs more than the handlers of short
//! jobs.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel_jobs_core::{JobId, Keep, WorkerId};

use crate::sqlite::queries::failures;
use crate::sqlite::time::{NOW, micros};
use crate::sqlite::types::Worker;

/// What completions must have in common for one statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    pub(crate) worker: WorkerId,
    /// The lease number. It is 1 for nearly all jobs.
    pub(crate) number: i32,
    pub(crate) keep: Keep,
}

/// Completes those of these jobs whose lease stands, and keeps or deletes their rows as `alike.keep` says. Returns
/// these jobs.
pub(crate) fn complete(conn: &mut SqliteConnection, alike: Alike, jobs: &[JobId]) -> QueryResult<Vec<JobId>> {
    #[derive(QueryableByName)]
    struct Moved {
        #[diesel(sql_type = BigInt)]
        id: i64,
    }
    // The `+` keeps SQLite from using the index on `worker`. So each job is found by its id.
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
            // A job has no failures during its first lease. A failure is recorded when a lease ends, or by a `cancel`.
            // After a `cancel`, only `retry` makes the job available again, and `retry` counts a lease for it.
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
