//! `audit`: what operators did.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::{Action, AuditEntry, AuditRecord};
use serde_json::json;

use crate::sqlite::schema::jobs_audit;
use crate::sqlite::types::Instant;

/// Writes one entry.
pub(crate) fn record(conn: &mut SqliteConnection, entry: &AuditEntry) -> QueryResult<()> {
    let detail = (!entry.detail.is_null()).then_some(&entry.detail);
    super::audit::record(conn, &entry.actor, entry.action, &entry.target, detail)
}

/// Writes the entry for an action on these jobs, if there are any.
pub(crate) fn record_action(
    conn: &mut SqliteConnection,
    action: &Action,
    mut jobs: Vec<i64>,
    actor: &str,
) -> QueryResult<()> {
    jobs.sort_unstable();
    let target = match jobs.as_slice() {
        [] => return Ok(()),
        [one] => format!("job {one}"),
        many => format!("{} jobs", many.len()),
    };
    let mut detail = json!({ "ids": jobs });
    if let Some(argument) = action.argument() {
        detail["argument"] = argument.into();
    }
    record(conn, &AuditEntry { actor: actor.to_owned(), action: action.as_str(), target, detail })
}

type Row = (i64, Instant, String, String, String, Option<String>);

/// Returns the newest entries before this one, newest first.
pub(crate) fn audit(conn: &mut SqliteConnection, before: Option<i64>, limit: i64) -> QueryResult<Vec<AuditRecord>> {
    let rows: Vec<Row> = jobs_audit::table
        .filter(jobs_audit::id.lt(before.unwrap_or(i64::MAX)))
        .order(jobs_audit::id.desc())
        .limit(limit)
        .select((
            jobs_audit::id,
            jobs_audit::at,
            jobs_audit::actor,
            jobs_audit::action,
            jobs_audit::target,
            jobs_audit::detail,
        ))
        .load(conn)?;
    let record = |(id, at, actor, action, target, detail): Row| AuditRecord {
        id,
        at: at.0,
        actor,
        action,
        target,
        detail: detail.and_then(|detail| serde_json::from_str(&detail).ok()),
    };
    Ok(rows.into_iter().map(record).collect())
}
