//! `installation`, `freeze`, `thaw`, `set_environment`: values that apply to the whole file. They are stored in at most
//! one row. Each change adds a row to the audit, in the caller's transaction.

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::helper_types::{IsNotNull, exists as Exists};
use diesel::prelude::*;
use diesel_jobs_core::{Freeze, Installation};
use serde_json::json;

use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::{jobs_installation, jobs_schedule};
use crate::sqlite::time::Now;
use crate::sqlite::types::Instant;

type Row = (Option<String>, Option<Instant>, Option<String>, Option<String>);

pub(crate) fn installation(conn: &mut SqliteConnection) -> QueryResult<Installation> {
    let columns = (
        jobs_installation::environment,
        jobs_installation::frozen_at,
        jobs_installation::frozen_by,
        jobs_installation::frozen_reason,
    );
    let row: Option<Row> = jobs_installation::table.select(columns).first(conn).optional()?;
    let Some((environment, frozen_at, by, reason)) = row else { return Ok(Installation::default()) };
    let freeze = |at: Instant| Freeze { at: at.0, by: by.unwrap_or_default(), reason: reason.unwrap_or_default() };
    Ok(Installation { environment, frozen: frozen_at.map(freeze), ..Installation::default() })
}

/// The condition that the file is frozen.
pub(crate) fn frozen() -> Exists<diesel::dsl::Filter<jobs_installation::table, IsNotNull<jobs_installation::frozen_at>>>
{
    exists(jobs_installation::table.filter(jobs_installation::frozen_at.is_not_null()))
}

/// Whether the file is frozen.
pub(crate) fn is_frozen(conn: &mut SqliteConnection) -> QueryResult<bool> {
    diesel::select(frozen()).get_result(conn)
}

/// What the audit says was changed.
const TARGET: &str = "the database";

/// Freezes the file. Returns `false` if it was frozen already.
pub(crate) fn freeze(conn: &mut SqliteConnection, by: &str, reason: &str) -> QueryResult<bool> {
    let frozen = (
        jobs_installation::frozen_at.eq(Now.nullable()),
        jobs_installation::frozen_by.eq(by),
        jobs_installation::frozen_reason.eq(reason),
    );
    let not_frozen = jobs_installation::table.filter(jobs_installation::frozen_at.is_null());
    let mut rows = diesel::update(not_frozen).set(frozen).execute(conn)?;
    if rows == 0 {
        // There may be no row yet.
        rows = diesel::insert_into(jobs_installation::table)
            .values((jobs_installation::only_row.eq(1), frozen))
            .on_conflict_do_nothing()
            .execute(conn)?;
    }
    if rows > 0 {
        record(conn, by, "freeze", TARGET, Some(&json!({ "reason": reason })))?;
    }
    Ok(rows > 0)
}

/// Ends a freeze. Returns `false` if the file was not frozen. The listener of every worker notices the commit.
pub(crate) fn thaw(conn: &mut SqliteConnection, actor: &str) -> QueryResult<bool> {
    let rows = diesel::update(jobs_installation::table.filter(jobs_installation::frozen_at.is_not_null()))
        .set((
            jobs_installation::frozen_at.eq(None::<i64>),
            jobs_installation::frozen_by.eq(None::<&str>),
            jobs_installation::frozen_reason.eq(None::<&str>),
        ))
        .execute(conn)?;
    if rows > 0 {
        record(conn, actor, "thaw", TARGET, None)?;
    }
    Ok(rows > 0)
}

/// Returns `false` if this was the name already.
pub(crate) fn set_environment(
    conn: &mut SqliteConnection,
    environment: Option<&str>,
    actor: &str,
) -> QueryResult<bool> {
    let stored: Option<Option<String>> =
        jobs_installation::table.select(jobs_installation::environment).first(conn).optional()?;
    let before = stored.flatten();
    if before.as_deref() == environment {
        return Ok(false);
    }
    let named = jobs_installation::environment.eq(environment);
    diesel::insert_into(jobs_installation::table)
        .values((jobs_installation::only_row.eq(1), named))
        .on_conflict(jobs_installation::only_row)
        .do_update()
        .set(named)
        .execute(conn)?;
    let detail = json!({ "environment": environment, "before": before });
    record(conn, actor, "set_environment", TARGET, Some(&detail))?;
    Ok(true)
}

pub(crate) fn forget_missed_ticks(conn: &mut SqliteConnection, actor: &str) -> QueryResult<()> {
    diesel::update(jobs_schedule::table).set(jobs_schedule::last_tick.eq(Now)).execute(conn)?;
    record(conn, actor, "forget_missed_ticks", "all schedules", None)
}
