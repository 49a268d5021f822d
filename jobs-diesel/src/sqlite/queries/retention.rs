//! `retention`, `set_retention`, `unset_retention`: how long ended jobs are kept, as operators have set it.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{Keep, RetentionSetting};
use serde_json::{Value, json};

use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::jobs_retention;
use crate::sqlite::time::{NowPlus, after, micros};

pub(crate) fn keep(stored: Option<i64>) -> Keep {
    match stored.map(u64::try_from) {
        None => Keep::Forever,
        Some(Ok(0) | Err(_)) => Keep::Nothing,
        Some(Ok(micros)) => Keep::For(Duration::from_micros(micros)),
    }
}

pub(crate) fn list(conn: &mut SqliteConnection) -> QueryResult<Vec<RetentionSetting>> {
    let rows: Vec<(String, String, Option<i64>)> =
        jobs_retention::table.order((jobs_retention::kind, jobs_retention::state)).load(conn)?;
    // The check of the table allows only words that can be parsed.
    let setting = |(kind, state, stored): (String, String, Option<i64>)| {
        Some(RetentionSetting {
            kind: Some(kind).filter(|kind| !kind.is_empty()),
            state: state.parse().ok()?,
            keep: keep(stored),
        })
    };
    let mut settings: Vec<RetentionSetting> = rows.into_iter().filter_map(setting).collect();
    // In the order of the states, as on PostgreSQL.
    settings
        .sort_by_key(|setting| (setting.kind.clone(), JobState::ALL.iter().position(|state| *state == setting.state)));
    Ok(settings)
}

/// The time until which an ended job of this kind is kept, if no worker has decided it. It is the setting of operators
/// for its kind, else their setting for all kinds, else `otherwise`.
pub(crate) fn expiry(
    conn: &mut SqliteConnection,
    kind: &str,
    state: JobState,
    otherwise: Duration,
) -> QueryResult<Option<NowPlus>> {
    let stored: Option<Option<i64>> = jobs_retention::table
        .filter(jobs_retention::kind.eq_any([kind, ""]))
        .filter(jobs_retention::state.eq(state.as_str()))
        .order(jobs_retention::kind.desc())
        .select(jobs_retention::keep_micros)
        .first(conn)
        .optional()?;
    Ok(match stored.map(keep) {
        None => Some(after(otherwise)),
        Some(Keep::Forever) => None,
        Some(Keep::Nothing) => Some(after(Duration::ZERO)),
        Some(Keep::For(time)) => Some(after(time)),
    })
}

/// Returns `false` if it was set so already. The caller has checked the state.
pub(crate) fn set(conn: &mut SqliteConnection, setting: &RetentionSetting, actor: &str) -> QueryResult<bool> {
    let (kind, state) = (setting.kind.as_deref().unwrap_or_default(), setting.state.as_str());
    let keep = match setting.keep {
        Keep::Nothing => Some(0),
        Keep::For(time) => Some(micros(time)),
        Keep::Forever => None,
    };
    let values = (jobs_retention::kind.eq(kind), jobs_retention::state.eq(state), jobs_retention::keep_micros.eq(keep));
    let added = diesel::insert_or_ignore_into(jobs_retention::table).values(values).execute(conn)?;
    let other = jobs_retention::table.find((kind, state)).filter(jobs_retention::keep_micros.is_not(keep));
    let changed = added + diesel::update(other).set(jobs_retention::keep_micros.eq(keep)).execute(conn)?;
    if changed > 0 {
        let detail = serde_json::to_value(setting).unwrap_or(Value::Null);
        record(conn, actor, "set_retention", &target(setting.kind.as_deref()), Some(&detail))?;
    }
    Ok(changed > 0)
}

/// Returns `false` if there was no such setting.
pub(crate) fn unset(
    conn: &mut SqliteConnection,
    kind: Option<&str>,
    state: JobState,
    actor: &str,
) -> QueryResult<bool> {
    let row = jobs_retention::table.find((kind.unwrap_or_default(), state.as_str()));
    let removed = diesel::delete(row).execute(conn)?;
    if removed > 0 {
        record(conn, actor, "unset_retention", &target(kind), Some(&json!({ "state": state })))?;
    }
    Ok(removed > 0)
}

fn target(kind: Option<&str>) -> String {
    kind.map_or_else(|| "all kinds".to_owned(), |kind| format!("kind {kind}"))
}
