//! `pause_queue`, `resume_queue`, `pause_kind`, `resume_kind`, and the lists of both. A row that another session has
//! locked is waited for, so that of two operators the second one learns what the first one did. Claims only read these
//! tables.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, now, update};
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{KindSettings, Pause, QueueSettings};
use serde_json::json;

use super::audit::record;
use crate::pg::schema::{kind, queue};

/// Writes `pause` and `resume` for a table, in a module of its own.
macro_rules! pausable {
    ($module:ident, $table:ident, $what:literal) => {
        pub(crate) mod $module {
            use super::*;

            /// Returns `false` if it was paused already.
            pub(crate) async fn pause(
                conn: &mut AsyncPgConnection,
                name: &str,
                actor: &str,
                reason: Option<&str>,
            ) -> QueryResult<bool> {
                let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
                conn.transaction(async move |conn| {
                    let row = $table::name.eq(&name);
                    insert_into($table::table).values(row).on_conflict_do_nothing().execute(conn).await?;
                    let paused = update($table::table.find(&name).filter($table::paused.eq(false)))
                        .set((
                            $table::paused.eq(true),
                            $table::paused_at.eq(now.into_sql::<Timestamptz>().nullable()),
                            $table::paused_by.eq(&actor),
                            $table::paused_reason.eq(&reason),
                        ))
                        .execute(conn)
                        .await?;
                    if paused == 0 {
                        return Ok(false);
                    }
                    let target = format!(concat!($what, " {}"), name);
                    record(conn, &actor, "pause", &target, Some(&json!({ "reason": reason }))).await?;
                    Ok(true)
                })
                .await
            }

            /// Returns `false` if it was not paused.
            pub(crate) async fn resume(conn: &mut AsyncPgConnection, name: &str, actor: &str) -> QueryResult<bool> {
                let (name, actor) = (name.to_owned(), actor.to_owned());
                conn.transaction(async move |conn| {
                    let resumed = update($table::table.find(&name).filter($table::paused.eq(true)))
                        .set((
                            $table::paused.eq(false),
                            $table::paused_at.eq(None::<DateTime<Utc>>),
                            $table::paused_by.eq(None::<&str>),
                            $table::paused_reason.eq(None::<&str>),
                        ))
                        .execute(conn)
                        .await?;
                    if resumed == 0 {
                        return Ok(false);
                    }
                    record(conn, &actor, "resume", &format!(concat!($what, " {}"), name), None).await?;
                    Ok(true)
                })
                .await
            }
        }
    };
}

pausable!(of_queue, queue, "queue");
pausable!(of_kind, kind, "kind");

pub(super) type PauseRow = (bool, Option<DateTime<Utc>>, Option<String>, Option<String>);

pub(super) fn pause((paused, at, by, reason): PauseRow) -> Option<Pause> {
    paused.then_some(Pause { at, by, reason })
}

pub(crate) async fn queues(conn: &mut AsyncPgConnection) -> QueryResult<Vec<QueueSettings>> {
    let rows: Vec<(String, PauseRow, Option<i32>)> = queue::table
        .filter(queue::paused.eq(true).or(queue::slots.is_not_null()))
        .select((queue::name, (queue::paused, queue::paused_at, queue::paused_by, queue::paused_reason), queue::slots))
        .order(queue::name)
        .load(conn)
        .await?;
    // The check of the table allows no negative numbers.
    let settings = |(name, paused, slots): (String, PauseRow, Option<i32>)| QueueSettings {
        name,
        paused: pause(paused),
        slots: slots.map(|slots| u32::try_from(slots).unwrap_or_default()),
    };
    Ok(rows.into_iter().map(settings).collect())
}

pub(crate) async fn kinds(conn: &mut AsyncPgConnection) -> QueryResult<Vec<KindSettings>> {
    let rows: Vec<(String, PauseRow)> = kind::table
        .filter(kind::paused.eq(true))
        .select((kind::name, (kind::paused, kind::paused_at, kind::paused_by, kind::paused_reason)))
        .order(kind::name)
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(|(name, paused)| KindSettings { name, paused: pause(paused) }).collect())
}
