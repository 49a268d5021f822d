//! `audit`: the actions of operators.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::{Action, AuditEntry, AuditRecord, RequestKey};

use crate::operation::record::acted;
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
    jobs: Vec<i64>,
    actor: &str,
) -> QueryResult<()> {
    acted(action, jobs, actor).map_or(Ok(()), |entry| record(conn, &entry))
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
    Ok(rows.into_iter().map(entry).collect())
}

fn entry((id, at, actor, action, target, detail): Row) -> AuditRecord {
    let detail = detail.and_then(|detail| serde_json::from_str(&detail).ok());
    AuditRecord { id, at: at.0, actor, action, target, detail }
}

/// What was done before for this request. The caller's transaction holds the write lock.
pub(crate) fn before(conn: &mut SqliteConnection, key: &RequestKey) -> QueryResult<Option<AuditRecord>> {
    let rows: Vec<Row> = jobs_audit::table
        .filter(jobs_audit::id.gt(key.after()))
        .filter(jobs_audit::detail.like(format!("%{}%", key.text())))
        .order(jobs_audit::id)
        .select((
            jobs_audit::id,
            jobs_audit::at,
            jobs_audit::actor,
            jobs_audit::action,
            jobs_audit::target,
            jobs_audit::detail,
        ))
        .load(conn)?;
    Ok(rows.into_iter().map(entry).find(|record| key.is_of(record)))
}
