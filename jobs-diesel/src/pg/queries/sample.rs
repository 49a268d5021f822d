//! The row of `jobs.sample`: whose turn it is to count, and what was counted.
//!
//! A worker takes the turn with one statement, which locks the row (`for no key update skip locked`) and moves
//! `next_at` into the future. If it dies while it counts, the next worker takes the turn when that time is over. No
//! worker rests for more than a day: a later `next_at` says that the clock has gone back, and the turn is due.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::data_types::PgInterval;
use diesel::dsl::{insert_into, now, update};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Bool, Double, Interval, Nullable, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{KindStats, Sample};

use crate::pg::native::{RawJson, native_query, sql};
use crate::pg::schema::sample;

/// How long a turn is reserved. A worker that counts for longer renews it.
pub(crate) const TURN: Duration = Duration::from_secs(120);

/// The longest rest. Its sum with the current time is a time of the calendar.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

fn interval(wait: Duration) -> PgInterval {
    PgInterval::from_microseconds(i64::try_from(wait.min(LONGEST).as_micros()).unwrap_or(i64::MAX))
}

/// Whose turn it is.
pub(crate) enum Turn {
    /// It is this worker's. The tables of jobs have this size, in bytes.
    Taken {
        /// The size.
        size: i64,
    },
    /// The next one comes after this time. Another worker has this one, or had the last.
    Later(Duration),
}

/// Takes the turn if it is due and no other session has locked the row. Returns whether it has, the seconds until the
/// next turn (null if there is no row yet), and the size of the tables.
struct TakeTurnQuery {
    /// How long the turn is reserved.
    reserved: PgInterval,
}

impl QueryFragment<Pg> for TakeTurnQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with turn as (
    update jobs.sample set next_at = now() + " [self.reserved => Interval] "
    where only_row = (select only_row from jobs.sample where next_at <= now() or next_at > now() + interval '25 hours' for no key update skip locked)
    returning only_row
)
select exists (select from turn), (select extract(epoch from next_at - now())::float8 from jobs.sample),
    pg_relation_size('jobs.ready') + pg_relation_size('jobs.held') + pg_relation_size('jobs.running') + pg_relation_size('jobs.finished')"
        )
    }
}

native_query!(TakeTurnQuery -> (Bool, Nullable<Double>, BigInt));

/// Takes the turn, if it is due.
pub(crate) async fn take_turn(conn: &mut AsyncPgConnection) -> QueryResult<Turn> {
    let take = || TakeTurnQuery { reserved: interval(TURN) };
    let mut found: (bool, Option<f64>, i64) = take().get_result(conn).await?;
    if found.1.is_none() {
        insert_into(sample::table).values(sample::only_row.eq(true)).on_conflict_do_nothing().execute(conn).await?;
        found = take().get_result(conn).await?;
    }
    let (is_taken, wait, size) = found;
    if is_taken {
        return Ok(Turn::Taken { size });
    }
    let wait = wait.filter(|seconds| *seconds > 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok(Turn::Later(wait.unwrap_or(TURN)))
}

/// Moves the next turn.
pub(crate) async fn set_next(conn: &mut AsyncPgConnection, wait: Duration) -> QueryResult<()> {
    update(sample::table)
        .set(sample::next_at.eq(now.into_sql::<Timestamptz>() + interval(wait)))
        .execute(conn)
        .await
        .map(drop)
}

/// Stores what was counted.
pub(crate) async fn store(
    conn: &mut AsyncPgConnection,
    took: Duration,
    counts: RawJson,
    rest: Duration,
) -> QueryResult<()> {
    update(sample::table)
        .set((
            sample::at.eq(now.into_sql::<Timestamptz>().nullable()),
            sample::took_seconds.eq(took.as_secs_f64()),
            sample::counts.eq(counts),
            sample::resting.eq(None::<String>),
            sample::next_at.eq(now.into_sql::<Timestamptz>() + interval(rest)),
        ))
        .execute(conn)
        .await
        .map(drop)
}

/// Stores why nothing is counted.
pub(crate) async fn rest(conn: &mut AsyncPgConnection, reason: &str, wait: Duration) -> QueryResult<()> {
    let values = (sample::resting.eq(Some(reason)), sample::next_at.eq(now.into_sql::<Timestamptz>() + interval(wait)));
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
