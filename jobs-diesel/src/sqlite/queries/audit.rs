//! `record`: writes down what an operator did. The caller's transaction also contains the change, so there is never one
//! without the other.

use diesel::SqliteConnection;
use diesel::prelude::*;
use serde_json::Value;

use crate::sqlite::schema::jobs_audit;

/// Adds a row to the audit: who (`actor`) did what (`action`, a verb) to what (`target`, such as `queue mail`).
pub(crate) fn record(
    conn: &mut SqliteConnection,
    actor: &str,
    action: &str,
    target: &str,
    detail: Option<&Value>,
) -> QueryResult<()> {
    let row = (
        jobs_audit::actor.eq(actor),
        jobs_audit::action.eq(action),
        jobs_audit::target.eq(target),
        jobs_audit::detail.eq(detail.map(Value::to_string)),
    );
    diesel::insert_into(jobs_audit::table).values(row).execute(conn).map(drop)
}
