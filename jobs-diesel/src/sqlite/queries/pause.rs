//! `pause_queue`, `resume_queue`, `pause_kind`, `resume_kind`, and the lists of both.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::{KindSettings, Pause, QueueSettings};
use serde_json::json;

use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::{jobs_kind, jobs_queue};
use crate::sqlite::time::Now;
use crate::sqlite::types::Instant;

/// Writes `pause` and `resume` for a table, in a module of its own.
macro_rules! pausable {
    ($module:ident, $table:ident, $what:literal) => {
        pub(crate) mod $module {
            use super::*;

            /// Returns `false` if it was paused already.
            pub(crate) fn pause(
                conn: &mut SqliteConnection,
                name: &str,
                actor: &str,
                reason: Option<&str>,
            ) -> QueryResult<bool> {
                diesel::insert_or_ignore_into($table::table).values($table::name.eq(name)).execute(conn)?;
                let paused = diesel::update($table::table.find(name).filter($table::paused.eq(false)))
                    .set((
                        $table::paused.eq(true),
                        $table::paused_at.eq(Now.nullable()),
                        $table::paused_by.eq(actor),
                        $table::paused_reason.eq(reason),
                    ))
                    .execute(conn)?;
                if paused > 0 {
                    let target = format!(concat!($what, " {}"), name);
                    record(conn, actor, "pause", &target, Some(&json!({ "reason": reason })))?;
                }
                Ok(paused > 0)
            }

            /// Returns `false` if it was not paused.
            pub(crate) fn resume(conn: &mut SqliteConnection, name: &str, actor: &str) -> QueryResult<bool> {
                let resumed = diesel::update($table::table.find(name).filter($table::paused.eq(true)))
                    .set((
                        $table::paused.eq(false),
                        $table::paused_at.eq(None::<i64>),
                        $table::paused_by.eq(None::<&str>),
                        $table::paused_reason.eq(None::<&str>),
                    ))
                    .execute(conn)?;
                if resumed > 0 {
                    record(conn, actor, "resume", &format!(concat!($what, " {}"), name), None)?;
                }
                Ok(resumed > 0)
            }
        }
    };
}

pausable!(of_queue, jobs_queue, "queue");
pausable!(of_kind, jobs_kind, "kind");

pub(super) type PauseRow = (bool, Option<Instant>, Option<String>, Option<String>);

pub(super) fn pause((paused, at, by, reason): PauseRow) -> Option<Pause> {
    paused.then_some(Pause { at: at.map(|at| at.0), by, reason })
}

pub(crate) fn queues(conn: &mut SqliteConnection) -> QueryResult<Vec<QueueSettings>> {
    let paused = (jobs_queue::paused, jobs_queue::paused_at, jobs_queue::paused_by, jobs_queue::paused_reason);
    let rows: Vec<(String, PauseRow, Option<i32>)> = jobs_queue::table
        .filter(jobs_queue::paused.eq(true).or(jobs_queue::slots.is_not_null()))
        .select((jobs_queue::name, paused, jobs_queue::slots))
        .order(jobs_queue::name)
        .load(conn)?;
    // The check of the table allows no negative numbers.
    let settings = |(name, paused, slots): (String, PauseRow, Option<i32>)| QueueSettings {
        name,
        paused: pause(paused),
        slots: slots.map(|slots| u32::try_from(slots).unwrap_or_default()),
    };
    Ok(rows.into_iter().map(settings).collect())
}

pub(crate) fn kinds(conn: &mut SqliteConnection) -> QueryResult<Vec<KindSettings>> {
    let rows: Vec<(String, PauseRow)> = jobs_kind::table
        .filter(jobs_kind::paused.eq(true))
        .select((
            jobs_kind::name,
            (jobs_kind::paused, jobs_kind::paused_at, jobs_kind::paused_by, jobs_kind::paused_reason),
        ))
        .order(jobs_kind::name)
        .load(conn)?;
    Ok(rows.into_iter().map(|(name, paused)| KindSettings { name, paused: pause(paused) }).collect())
}
