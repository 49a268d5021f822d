//! The row of `jobs.sample`: whose turn it is to count, and what was counted.
//!
//! A worker takes the turn in a short transaction: it locks the row (`for no key update skip locked`), moves `next_at`
//! into the future and commits. If it dies while it counts, the next worker takes the turn when that time is over.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::dsl::{insert_into, update};
use diesel::prelude::*;
use diesel::sql_types::{Double, Nullable};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{KindStats, Sample};

use super::clock::now;
use crate::pg::native::RawJson;
use crate::pg::schema::sample;

/// How long a turn is reserved. A worker that counts for longer renews it.
pub(crate) const TURN: Duration = Duration::from_secs(120);

/// The longest rest. Its sum with the current time is a time of the calendar.
const LONGEST: TimeDelta = TimeDelta::days(1);

fn delta(span: Duration) -> TimeDelta {
    TimeDelta::from_std(span).unwrap_or(LONGEST).min(LONGEST)
}

/// The time until the next turn. `None` if it is due.
async fn next(conn: &mut AsyncPgConnection) -> QueryResult<Option<Duration>> {
    let seconds: Option<f64> = sample::table
        .select(diesel::dsl::sql::<Double>("extract(epoch from next_at - now())::float8"))
        .first(conn)
        .await
        .optional()?;
    Ok(seconds.filter(|seconds| *seconds > 0.0).map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(TURN)))
}

/// Takes the turn. Returns `None`, or the time until the next turn if another worker has it.
pub(crate) async fn take_turn(conn: &mut AsyncPgConnection) -> QueryResult<Option<Duration>> {
    if let Some(wait) = next(conn).await? {
        return Ok(Some(wait));
    }
    let taken = conn
        .transaction(async move |conn| {
            insert_into(sample::table).values(sample::only_row.eq(true)).on_conflict_do_nothing().execute(conn).await?;
            let due: Option<bool> = sample::table
                .filter(sample::next_at.le(now(conn).await?))
                .select(sample::only_row)
                .for_no_key_update()
                .skip_locked()
                .first(conn)
                .await
                .optional()?;
            if due.is_some() {
                set_next(conn, TURN).await?;
            }
            QueryResult::Ok(due.is_some())
        })
        .await?;
    if taken { Ok(None) } else { Ok(Some(next(conn).await?.unwrap_or(TURN))) }
}

/// Moves the next turn.
pub(crate) async fn set_next(conn: &mut AsyncPgConnection, wait: Duration) -> QueryResult<()> {
    let next = now(conn).await? + delta(wait);
    update(sample::table).set(sample::next_at.eq(next)).execute(conn).await.map(drop)
}

/// Stores what was counted.
pub(crate) async fn store(
    conn: &mut AsyncPgConnection,
    took: Duration,
    counts: RawJson,
    rest: Duration,
) -> QueryResult<()> {
    let at = now(conn).await?;
    update(sample::table)
        .set((
            sample::at.eq(Some(at)),
            sample::took_seconds.eq(took.as_secs_f64()),
            sample::counts.eq(counts),
            sample::resting.eq(None::<String>),
            sample::next_at.eq(at + delta(rest)),
        ))
        .execute(conn)
        .await
        .map(drop)
}

/// Stores why nothing is counted.
pub(crate) async fn rest(conn: &mut AsyncPgConnection, reason: &str, wait: Duration) -> QueryResult<()> {
    let values = (sample::resting.eq(Some(reason)), sample::next_at.eq(now(conn).await? + delta(wait)));
    update(sample::table).set(values).execute(conn).await.map(drop)
}

/// What was counted last.
pub(crate) async fn read(conn: &mut AsyncPgConnection) -> QueryResult<Option<Sample>> {
    type Row = (Option<DateTime<Utc>>, Option<f64>, f64, Option<String>, RawJson);
    let age = diesel::dsl::sql::<Nullable<Double>>("extract(epoch from now() - at)::float8");
    let columns = (sample::at, age, sample::took_seconds, sample::resting, sample::counts);
    let row: Option<Row> = sample::table.select(columns).first(conn).await.optional()?;
    let Some((at, age_seconds, took_seconds, resting, counts)) = row else { return Ok(None) };
    let kinds: Vec<KindStats> =
        serde_json::from_slice(&counts.0).map_err(|error| diesel::result::Error::DeserializationError(error.into()))?;
    Ok(Some(Sample { at, age_seconds, took_seconds, resting, kinds }))
}
