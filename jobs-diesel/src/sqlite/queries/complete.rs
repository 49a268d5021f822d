//! `complete`: completes many jobs with one statement. To finish them one by one costs more than the handlers of short
//! jobs.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::{JobId, Keep, WorkerId};

use crate::native::{cached_by_text, sql};
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

/// Completes those of these jobs whose lease is valid, and keeps or deletes their rows as `alike.keep` says. Returns
/// these jobs.
pub(crate) fn complete(conn: &mut SqliteConnection, alike: Alike, jobs: &[JobId]) -> QueryResult<Vec<JobId>> {
    let list: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let complete = CompleteQuery {
        deletes: alike.keep == Keep::Nothing,
        kept_for: if let Keep::For(time) = alike.keep { Some(micros(time)) } else { None },
        jobs: &format!("[{}]", list.join(",")),
        number: alike.number,
        worker: Worker(alike.worker),
    };
    let moved: Vec<i64> = complete.load(conn)?;
    // A job has no failures during its first lease. A failure is recorded when a lease ends, or by a `cancel`.
    // After a `cancel`, only `retry` makes the job available again, and `retry` counts a lease for it.
    if alike.keep == Keep::Nothing && alike.number > 1 {
        failures::forget(conn, &moved)?;
    }
    Ok(moved.into_iter().map(JobId).collect())
}

/// Native SQL, so that it is prepared once, as [the statement of a claim](super::claim_level).
struct CompleteQuery<'a> {
    deletes: bool,
    /// Microseconds. `None` keeps the rows for ever.
    kept_for: Option<i64>,
    /// The ids as a JSON array.
    jobs: &'a str,
    number: i32,
    worker: Worker,
}

impl QueryFragment<Sqlite> for CompleteQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        if self.deletes {
            out.push_sql("delete from jobs_job");
        } else {
            sql!(
                out,
                "update jobs_job set state = 'completed', finished_at = " NOW ", expires_at = " NOW " + " [self.kept_for => Nullable<BigInt>]
            )?;
        }
        // The `+` keeps SQLite from using the index on `worker`. So each job is found by its id.
        sql!(
            out,
            " where id in (select value from json_each(" [self.jobs => Text] ")) and lease = " [self.number => Integer]
            " and +worker = " [self.worker => Text] " and state = 'running' returning id"
        )
    }
}

cached_by_text!(CompleteQuery<'a> -> BigInt);
