//! `overrides`: what operators have set at run time. Each worker reads this once a second. The three tables have a row
//! per setting, so usually none.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::Overrides;

use crate::sqlite::queries::retention;
use crate::sqlite::schema::{jobs_kind, jobs_queue};

pub(crate) fn overrides(conn: &mut SqliteConnection) -> QueryResult<Overrides> {
    let mut overrides = Overrides::default();
    let queues: Vec<(String, bool, Option<i32>)> = jobs_queue::table
        .filter(jobs_queue::paused.eq(true).or(jobs_queue::slots.is_not_null()))
        .select((jobs_queue::name, jobs_queue::paused, jobs_queue::slots))
        .load(conn)?;
    for (name, paused, slots) in queues {
        // The check in the schema allows no negative numbers.
        if let Some(slots) = slots.and_then(|slots| usize::try_from(slots).ok()) {
            overrides.slots.insert(name.clone(), slots);
        }
        if paused {
            overrides.paused_queues.insert(name);
        }
    }
    let kinds: Vec<String> = jobs_kind::table.filter(jobs_kind::paused.eq(true)).select(jobs_kind::name).load(conn)?;
    overrides.paused_kinds.extend(kinds);
    for setting in retention::list(conn)? {
        overrides.retention.insert(setting.kind.as_deref().unwrap_or_default(), setting.state, setting.keep);
    }
    Ok(overrides)
}
