//! `retention`, `set_retention`, `unset_retention`: how long ended jobs are kept, as operators have set it. It waits
//! for a row that another session has locked.

use std::time::Duration;

use diesel::data_types::PgInterval;
use diesel::dsl::{delete, insert_into, update};
use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{Keep, RetentionSetting};
use serde_json::{Value, json};

use super::audit::record;
use crate::pg::schema::retention;

const MICROS_PER_DAY: i64 = 24 * 3600 * 1_000_000;

/// The number of a state in `jobs.finished`. `None` if no ended job is in this state.
pub(crate) fn number(state: JobState) -> Option<i16> {
    match state {
        JobState::Completed => Some(1),
        JobState::Cancelled => Some(2),
        JobState::Discarded => Some(3),
        _ => None,
    }
}

pub(crate) fn state(number: i16) -> Option<JobState> {
    [JobState::Completed, JobState::Cancelled, JobState::Discarded]
        .into_iter()
        .find(|one| self::number(*one) == Some(number))
}

pub(crate) fn keep(stored: Option<PgInterval>) -> Keep {
    let Some(PgInterval { microseconds, days, months }) = stored else { return Keep::Forever };
    let days = i64::from(days) + i64::from(months) * 30;
    let micros = days.saturating_mul(MICROS_PER_DAY).saturating_add(microseconds);
    match u64::try_from(micros) {
        Ok(0) | Err(_) => Keep::Nothing,
        Ok(micros) => Keep::For(Duration::from_micros(micros)),
    }
}

fn interval(keep: Keep) -> Option<PgInterval> {
    match keep {
        Keep::Nothing => Some(PgInterval::from_microseconds(0)),
        Keep::For(time) => Some(PgInterval::from_microseconds(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))),
        Keep::Forever => None,
    }
}

pub(crate) async fn list(conn: &mut AsyncPgConnection) -> QueryResult<Vec<RetentionSetting>> {
    let rows: Vec<(String, i16, Option<PgInterval>)> =
        retention::table.order((retention::kind, retention::state)).load(conn).await?;
    // The check of the table allows only known numbers.
    let setting = |(kind, number, stored): (String, i16, Option<PgInterval>)| {
        Some(RetentionSetting {
            kind: Some(kind).filter(|kind| !kind.is_empty()),
            state: state(number)?,
            keep: keep(stored),
        })
    };
    Ok(rows.into_iter().filter_map(setting).collect())
}

/// Returns `false` if it was set so already. The caller has checked the state.
pub(crate) async fn set(conn: &mut AsyncPgConnection, setting: &RetentionSetting, actor: &str) -> QueryResult<bool> {
    let (setting, actor) = (setting.clone(), actor.to_owned());
    conn.transaction(async move |conn| {
        let Some(number) = number(setting.state) else { return Ok(false) };
        let (kind, keep) = (setting.kind.as_deref().unwrap_or_default(), interval(setting.keep));
        let values = (retention::kind.eq(kind), retention::state.eq(number), retention::keep.eq(keep));
        let added = insert_into(retention::table).values(values).on_conflict_do_nothing().execute(conn).await?;
        let other = retention::table.find((kind, number)).filter(retention::keep.is_distinct_from(keep));
        let changed = added + update(other).set(retention::keep.eq(keep)).execute(conn).await?;
        if changed > 0 {
            let detail = serde_json::to_value(&setting).unwrap_or(Value::Null);
            record(conn, &actor, "set_retention", &target(&setting.kind), Some(&detail)).await?;
        }
        Ok(changed > 0)
    })
    .await
}

/// Returns `false` if there was no such setting.
pub(crate) async fn unset(
    conn: &mut AsyncPgConnection,
    kind: Option<&str>,
    state: JobState,
    actor: &str,
) -> QueryResult<bool> {
    let (kind, actor) = (kind.map(str::to_owned), actor.to_owned());
    conn.transaction(async move |conn| {
        let Some(number) = number(state) else { return Ok(false) };
        let row = retention::table.find((kind.as_deref().unwrap_or_default(), number));
        if delete(row).execute(conn).await? == 0 {
            return Ok(false);
        }
        record(conn, &actor, "unset_retention", &target(&kind), Some(&json!({ "state": state }))).await?;
        Ok(true)
    })
    .await
}

fn target(kind: &Option<String>) -> String {
    kind.as_ref().map_or_else(|| "all kinds".to_owned(), |kind| format!("kind {kind}"))
}
