//! `fold_history` and `prune_history`: join and delete old rows of the history.
//!
//! A fold takes the oldest time that has rows of the smaller unit. It locks some of these rows, and the joined rows of
//! the same queues and kinds that exist already. The lock is `for update skip locked`, so two workers never wait for
//! each other. Then it deletes these rows and inserts their sums. If two workers fold the same time at once, it has two
//! rows of a kind. Every reader adds rows, so this changes no number.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::dsl::{array, delete, insert_into};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Interval, Timestamptz};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::history::{Bins, Fold, HistoryRow, fold};

use super::clock::now;
use crate::pg::schema::history;
use crate::stored_history::{Outcomes, counts, number};

diesel::define_sql_function! {
    fn date_bin(stride: Interval, source: Timestamptz, origin: Timestamptz) -> Timestamptz;
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = history, check_for_backend(Pg))]
struct Row {
    id: i64,
    queue: String,
    kind: String,
    #[diesel(select_expression = (history::completed, history::retried, history::discarded, history::cancelled, history::snoozed))]
    outcomes: Outcomes,
    waits: Vec<i32>,
    runs: Vec<i32>,
    wait_seconds: f64,
    run_seconds: f64,
}

fn bins(stored: &[i32]) -> Bins {
    Bins::from_counts(stored.iter().map(|count| u64::from(count.unsigned_abs())))
}

fn stored(bins: &Bins) -> Vec<i32> {
    bins.counts().iter().map(|count| i32::try_from(*count).unwrap_or(i32::MAX)).collect()
}

impl From<&Row> for HistoryRow {
    fn from(row: &Row) -> Self {
        let counts = counts(row.outcomes, (bins(&row.waits), bins(&row.runs)), (row.wait_seconds, row.run_seconds));
        Self { queue: row.queue.clone(), kind: row.kind.clone(), counts }
    }
}

/// No history is as long as this. The difference to the current time is a time of the calendar.
const LONGEST: TimeDelta = TimeDelta::days(36_500);

/// Returns how many rows it has joined.
pub(crate) async fn fold_history(
    conn: &mut AsyncPgConnection,
    Fold { from_minutes, to_minutes, after }: Fold,
    limit: i64,
) -> QueryResult<usize> {
    let unit = TimeDelta::minutes(to_minutes.into());
    let after = TimeDelta::from_std(after).unwrap_or(LONGEST).min(LONGEST);
    conn.transaction(async move |conn| {
        // The unit that is not over for long enough is left out.
        let end = date_bin(unit, now(conn).await? - after, DateTime::<Utc>::UNIX_EPOCH);
        let oldest: Option<DateTime<Utc>> = history::table
            .filter(history::minutes.eq(from_minutes).and(history::at.lt(end)))
            .order(history::at)
            .select(date_bin(unit, history::at, DateTime::<Utc>::UNIX_EPOCH))
            .first(conn)
            .await
            .optional()?;
        let Some(at) = oldest else { return Ok(0) };
        let mut rows: Vec<Row> = history::table
            .filter(history::minutes.eq(from_minutes).and(history::at.ge(at)).and(history::at.lt(at + unit)))
            .order((history::at, history::id))
            .limit(limit)
            .select(Row::as_select())
            .for_update()
            .skip_locked()
            .load(conn)
            .await?;
        let joined = rows.len();
        let queues: Vec<String> = rows.iter().map(|row| row.queue.clone()).collect();
        let kinds: Vec<String> = rows.iter().map(|row| row.kind.clone()).collect();
        let earlier: Vec<Row> = history::table
            .filter(history::minutes.eq(to_minutes).and(history::at.eq(at)))
            .filter(history::queue.eq_any(&queues).and(history::kind.eq_any(&kinds)))
            .select(Row::as_select())
            .for_update()
            .skip_locked()
            .load(conn)
            .await?;
        rows.extend(earlier);
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        delete(history::table.filter(history::id.eq_any(&ids))).execute(conn).await?;
        let sums: Vec<_> = fold(rows.iter().map(HistoryRow::from))
            .into_iter()
            .map(|HistoryRow { queue, kind, counts }| {
                (
                    (
                        history::at.eq(at),
                        history::minutes.eq(to_minutes),
                        history::queue.eq(queue),
                        history::kind.eq(kind),
                    ),
                    (history::completed.eq(number(counts.completed)), history::retried.eq(number(counts.retried))),
                    (history::discarded.eq(number(counts.discarded)), history::cancelled.eq(number(counts.cancelled))),
                    (history::snoozed.eq(number(counts.snoozed)), history::waits.eq(stored(&counts.waits))),
                    (history::runs.eq(stored(&counts.runs)), history::wait_seconds.eq(counts.wait_seconds)),
                    history::run_seconds.eq(counts.run_seconds),
                )
            })
            .collect();
        insert_into(history::table).values(sums).execute(conn).await?;
        Ok(joined)
    })
    .await
}

/// Deletes rows that are older than `keep`, whatever their unit is. Returns how many.
pub(crate) async fn prune_history(conn: &mut AsyncPgConnection, keep: Duration, limit: i64) -> QueryResult<usize> {
    let since = now(conn).await? - TimeDelta::from_std(keep).unwrap_or(LONGEST).min(LONGEST);
    diesel::alias!(history as old: Old);
    // The list of the units lets the planner use `history_at`.
    let expired = old
        .filter(old.field(history::minutes).eq_any([1_i16, 15, 60]))
        .filter(old.field(history::at).lt(since))
        .limit(limit)
        .select(old.field(history::id))
        .for_update()
        .skip_locked();
    delete(history::table.filter(history::id.eq_any(array::<BigInt, _>(expired)))).execute(conn).await
}
