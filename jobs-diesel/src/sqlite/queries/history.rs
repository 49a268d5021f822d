//! `record_history`, `fold_history`, `prune_history`, `series` and `rates`: what workers did. The bins are lists in
//! JSON, so rows are added here and not by SQL.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::{delete, exists, insert_into, select, sql};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable};
use diesel_jobs_core::history::{Bins, Fold, HistoryBatch, HistoryRow, SeriesBounds, WorkFilter, fold};

use crate::sqlite::schema::jobs_history as history;
use crate::sqlite::time::{Now, micros};
use crate::sqlite::types::Instant;
use crate::stored_history::{Outcomes, counts, number};

const MINUTE: i64 = 60_000_000;

#[derive(Queryable, Selectable)]
#[diesel(table_name = history, check_for_backend(diesel::sqlite::Sqlite))]
struct Row {
    id: i64,
    at: Instant,
    queue: String,
    kind: String,
    #[diesel(select_expression = (history::completed, history::retried, history::discarded, history::cancelled, history::snoozed))]
    outcomes: Outcomes,
    waits: String,
    runs: String,
    wait_seconds: f64,
    run_seconds: f64,
}

fn bins(stored: &str) -> QueryResult<Bins> {
    serde_json::from_str(stored).map_err(|error| diesel::result::Error::DeserializationError(error.into()))
}

fn stored(bins: &Bins) -> QueryResult<String> {
    serde_json::to_string(bins).map_err(|error| diesel::result::Error::SerializationError(error.into()))
}

impl Row {
    fn read(self) -> QueryResult<HistoryRow> {
        let bins = (bins(&self.waits)?, bins(&self.runs)?);
        let counts = counts(self.outcomes, bins, (self.wait_seconds, self.run_seconds));
        Ok(HistoryRow { queue: self.queue, kind: self.kind, counts })
    }
}

fn insert(
    conn: &mut SqliteConnection,
    (at, minutes, batch): (i64, i32, Option<&str>),
    rows: &[HistoryRow],
) -> QueryResult<()> {
    for HistoryRow { queue, kind, counts } in rows {
        insert_into(history::table)
            .values((
                (history::at.eq(at), history::minutes.eq(minutes), history::batch.eq(batch)),
                (history::queue.eq(queue), history::kind.eq(kind)),
                (history::completed.eq(number(counts.completed)), history::retried.eq(number(counts.retried))),
                (history::discarded.eq(number(counts.discarded)), history::cancelled.eq(number(counts.cancelled))),
                (history::snoozed.eq(number(counts.snoozed)), history::waits.eq(stored(&counts.waits)?)),
                (history::runs.eq(stored(&counts.runs)?), history::wait_seconds.eq(counts.wait_seconds)),
                history::run_seconds.eq(counts.run_seconds),
            ))
            .execute(conn)?;
    }
    Ok(())
}

/// Writes what a worker did within a minute. Writes nothing if the batch is there already.
pub(crate) fn record(conn: &mut SqliteConnection, batch: &HistoryBatch) -> QueryResult<()> {
    let now: i64 = select(Now).get_result(conn)?;
    let at = now.saturating_sub(micros(batch.middle.elapsed())).div_euclid(MINUTE) * MINUTE;
    let id = batch.id.to_string();
    let written = history::table
        .filter(history::minutes.eq(1).and(history::at.between(at - 2 * MINUTE, at + MINUTE)))
        .filter(history::batch.eq(&id));
    if select(exists(written)).get_result(conn)? {
        return Ok(());
    }
    insert(conn, (at, 1, Some(&id)), &batch.rows)
}

/// Returns the end of the last unit that is over for long enough.
fn end(conn: &mut SqliteConnection, fold: Fold) -> QueryResult<i64> {
    let (now, unit): (i64, i64) = (select(Now).get_result(conn)?, i64::from(fold.to_minutes) * MINUTE);
    Ok(now.saturating_sub(micros(fold.after)).div_euclid(unit) * unit)
}

/// Returns the oldest time that has rows to join.
fn oldest(conn: &mut SqliteConnection, fold: Fold) -> QueryResult<Option<i64>> {
    let end = end(conn, fold)?;
    let oldest: Option<i64> = history::table
        .filter(history::minutes.eq(i32::from(fold.from_minutes)).and(history::at.lt(end)))
        .order(history::at)
        .select(history::at)
        .first(conn)
        .optional()?;
    Ok(oldest.map(|at| at - at.rem_euclid(i64::from(fold.to_minutes) * MINUTE)))
}

/// Whether there are rows to join. Only reads.
pub(crate) fn can_fold(conn: &mut SqliteConnection, fold: Fold) -> QueryResult<bool> {
    oldest(conn, fold).map(|at| at.is_some())
}

/// Returns how many rows it has joined.
pub(crate) fn fold_history(conn: &mut SqliteConnection, wanted: Fold, limit: i64) -> QueryResult<usize> {
    let Some(at) = oldest(conn, wanted)? else { return Ok(0) };
    let (from, to) = (i32::from(wanted.from_minutes), i32::from(wanted.to_minutes));
    let mut rows: Vec<Row> = history::table
        .filter(history::minutes.eq(from).and(history::at.ge(at)).and(history::at.lt(at + i64::from(to) * MINUTE)))
        .order((history::at, history::id))
        .limit(limit)
        .select(Row::as_select())
        .load(conn)?;
    let joined = rows.len();
    let earlier: Vec<Row> =
        history::table.filter(history::minutes.eq(to).and(history::at.eq(at))).select(Row::as_select()).load(conn)?;
    rows.extend(earlier);
    for row in &rows {
        delete(history::table.find(row.id)).execute(conn)?;
    }
    let sums = fold(rows.into_iter().map(Row::read).collect::<QueryResult<Vec<_>>>()?);
    insert(conn, (at, to, None), &sums)?;
    Ok(joined)
}

/// The rows that begin before this time, at most `limit`.
fn expired(conn: &mut SqliteConnection, keep: std::time::Duration, limit: i64) -> QueryResult<Vec<i64>> {
    let now: i64 = select(Now).get_result(conn)?;
    history::table
        .filter(history::minutes.eq_any([1, 15, 60]).and(history::at.lt(now.saturating_sub(micros(keep)))))
        .limit(limit)
        .select(history::id)
        .load(conn)
}

/// Whether rows are older than `keep`. Only reads.
pub(crate) fn can_prune(conn: &mut SqliteConnection, keep: std::time::Duration) -> QueryResult<bool> {
    Ok(!expired(conn, keep, 1)?.is_empty())
}

/// Deletes rows that are older than `keep`. Returns how many.
pub(crate) fn prune(conn: &mut SqliteConnection, keep: std::time::Duration, limit: i64) -> QueryResult<usize> {
    let ids = expired(conn, keep, limit)?;
    for id in &ids {
        delete(history::table.find(id)).execute(conn)?;
    }
    Ok(ids.len())
}

/// The rows within the bounds, each with its time.
pub(crate) fn rows(
    conn: &mut SqliteConnection,
    bounds: &SeriesBounds,
    filter: &WorkFilter,
) -> QueryResult<Vec<(DateTime<Utc>, HistoryRow)>> {
    let mut query = history::table
        .filter(history::minutes.eq_any([1, 15, 60]))
        .filter(history::at.ge(bounds.from.timestamp_micros()).and(history::at.lt(bounds.until.timestamp_micros())))
        .select(Row::as_select())
        .into_boxed();
    if let Some(queue) = &filter.queue {
        query = query.filter(history::queue.eq(queue));
    }
    if !filter.kinds.is_empty() {
        query = query.filter(history::kind.eq_any(&filter.kinds));
    }
    query.load(conn)?.into_iter().map(|row: Row| Ok((row.at.0, row.read()?))).collect()
}

/// How many jobs of these queues were completed, by queue and time.
pub(crate) fn completed(
    conn: &mut SqliteConnection,
    bounds: &SeriesBounds,
    queues: &[String],
) -> QueryResult<Vec<(String, DateTime<Utc>, u64)>> {
    let rows: Vec<(String, Instant, Option<i64>)> = history::table
        .filter(history::minutes.eq_any([1, 15, 60]))
        .filter(history::at.ge(bounds.from.timestamp_micros()).and(history::at.lt(bounds.until.timestamp_micros())))
        .filter(history::queue.eq_any(queues))
        .group_by((history::queue, history::at))
        .select((history::queue, history::at, sql::<Nullable<BigInt>>("sum(completed)")))
        .load(conn)?;
    Ok(rows.into_iter().map(|(queue, at, done)| (queue, at.0, done.unwrap_or_default().unsigned_abs())).collect())
}

/// What was done with the jobs of each queue and kind, without waits and runs.
pub(crate) fn outcomes(conn: &mut SqliteConnection, bounds: &SeriesBounds) -> QueryResult<Vec<HistoryRow>> {
    let sum = |column: &str| sql::<BigInt>(&format!("coalesce(sum({column}), 0)"));
    let rows: Vec<(String, String, Outcomes)> = history::table
        .filter(history::minutes.eq_any([1, 15, 60]))
        .filter(history::at.ge(bounds.from.timestamp_micros()).and(history::at.lt(bounds.until.timestamp_micros())))
        .group_by((history::queue, history::kind))
        .select((
            history::queue,
            history::kind,
            (sum("completed"), sum("retried"), sum("discarded"), sum("cancelled"), sum("snoozed")),
        ))
        .load(conn)?;
    let read = |(queue, kind, outcomes)| HistoryRow {
        queue,
        kind,
        counts: counts(outcomes, (Bins::default(), Bins::default()), (0.0, 0.0)),
    };
    Ok(rows.into_iter().map(read).collect())
}

/// The current time.
pub(crate) fn now(conn: &mut SqliteConnection) -> QueryResult<DateTime<Utc>> {
    select(Now).get_result::<Instant>(conn).map(|now| now.0)
}
