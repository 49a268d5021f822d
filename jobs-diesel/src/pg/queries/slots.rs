//! `set_slots`: how many jobs of a queue each worker runs at once. It waits for a row that another session has locked.

use diesel::dsl::{insert_into, update};
use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use serde_json::json;

use super::audit::record;
use crate::pg::schema::queue;

/// Returns `false` if this was the number already.
pub(crate) async fn set_slots(
    conn: &mut AsyncPgConnection,
    name: &str,
    slots: Option<u32>,
    actor: &str,
) -> QueryResult<bool> {
    let (name, actor) = (name.to_owned(), actor.to_owned());
    // The caller has checked that it is at most 10000.
    let slots = slots.map(|slots| i32::try_from(slots).unwrap_or(i32::MAX));
    conn.transaction(async move |conn| {
        if slots.is_some() {
            insert_into(queue::table).values(queue::name.eq(&name)).on_conflict_do_nothing().execute(conn).await?;
        }
        let other = queue::table.find(&name).filter(queue::slots.is_distinct_from(slots));
        let changed = update(other).set(queue::slots.eq(slots)).execute(conn).await?;
        if changed == 0 {
            return Ok(false);
        }
        record(conn, &actor, "set_slots", &format!("queue {name}"), Some(&json!({ "slots": slots }))).await?;
        Ok(true)
    })
    .await
}
