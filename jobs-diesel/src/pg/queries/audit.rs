//! `record`: adds an action of an operator to the audit. The caller's transaction also contains the change, so both or
//! neither are committed. It only inserts, so it waits for no other session.

use diesel::dsl::insert_into;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use serde_json::Value;

use crate::pg::native::RawJson;
use crate::pg::schema::audit;

/// Adds a row to the audit: who (`actor`) did what (`action`, a verb) to what (`target`, such as `queue mail`).
pub(crate) async fn record(
    conn: &mut AsyncPgConnection,
    actor: &str,
    action: &str,
    target: &str,
    detail: Option<&Value>,
) -> QueryResult<()> {
    let row = (
        audit::actor.eq(actor),
        audit::action.eq(action),
        audit::target.eq(target),
        audit::detail.eq(detail.map(|detail| RawJson(detail.to_string().into_bytes()))),
    );
    insert_into(audit::table).values(row).execute(conn).await.map(drop)
}
