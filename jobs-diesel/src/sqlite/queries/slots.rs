//! `set_slots`: how many jobs of a queue each worker runs at once.

use diesel::SqliteConnection;
use diesel::prelude::*;
use serde_json::json;

use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::jobs_queue;

/// Returns `false` if this was the number already.
pub(crate) fn set_slots(conn: &mut SqliteConnection, name: &str, slots: Option<u32>, actor: &str) -> QueryResult<bool> {
    // The caller has checked that it is at most 10000.
    let slots = slots.map(|slots| i32::try_from(slots).unwrap_or(i32::MAX));
    if slots.is_some() {
        diesel::insert_or_ignore_into(jobs_queue::table).values(jobs_queue::name.eq(name)).execute(conn)?;
    }
    let other = jobs_queue::table.find(name).filter(jobs_queue::slots.is_not(slots));
    let changed = diesel::update(other).set(jobs_queue::slots.eq(slots)).execute(conn)?;
    if changed > 0 {
        record(conn, actor, "set_slots", &format!("queue {name}"), Some(&json!({ "slots": slots })))?;
    }
    Ok(changed > 0)
}
