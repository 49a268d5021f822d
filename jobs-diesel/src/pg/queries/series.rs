//! `series` and `rates`: sums of the history, by time or by queue and kind. They use `history_at` and lock no rows.
//!
//! Bins are added bin by bin. `unnest` of two arrays fills the shorter one with nulls.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text, Timestamptz};
use diesel_jobs_core::history::{Bins, HistoryRow, SeriesBounds, WorkFilter};

use crate::pg::native::{native_query, sql};
use crate::stored_history::{Outcomes, counts};

pub(crate) struct SeriesQuery<'a> {
    from: DateTime<Utc>,
    until: DateTime<Utc>,
    step_seconds: f64,
    /// Rows of different queues and kinds stay apart. Otherwise their names are empty.
    by_kind: bool,
    queue: Option<&'a str>,
    kind: Option<&'a str>,
}

impl<'a> SeriesQuery<'a> {
    pub(crate) fn by_time(bounds: &SeriesBounds, filter: &'a WorkFilter) -> Self {
        let SeriesBounds { from, until, step_micros } = *bounds;
        let (queue, kind) = (filter.queue.as_deref(), filter.kind.as_deref());
        Self { from, until, step_seconds: step_micros as f64 / 1e6, by_kind: false, queue, kind }
    }

    pub(crate) fn by_kind(bounds: &SeriesBounds) -> SeriesQuery<'static> {
        let SeriesBounds { from, until, step_micros } = *bounds;
        SeriesQuery { from, until, step_seconds: step_micros as f64 / 1e6, by_kind: true, queue: None, kind: None }
    }
}

/// The number of the step, queue and kind, the outcomes, the bins of waits and runs, and their sums.
pub(crate) type SeriesRow = (i64, String, String, Outcomes, (Vec<i64>, Vec<i64>), (f64, f64));

/// Reads a row.
pub(crate) fn read((step, queue, kind, outcomes, (waits, runs), sums): SeriesRow) -> (i64, HistoryRow) {
    let bins = |stored: Vec<i64>| Bins::from_counts(stored.into_iter().map(i64::unsigned_abs));
    (step, HistoryRow { queue, kind, counts: counts(outcomes, (bins(waits), bins(runs)), sums) })
}

impl QueryFragment<Pg> for SeriesQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with part as (
    select floor(extract(epoch from at - " [self.from => Timestamptz] ") / " [self.step_seconds => Double] ")::bigint as step,
           case when " [self.by_kind => Bool] " then queue else '' end as queue,
           case when " [self.by_kind => Bool] " then kind else '' end as kind,
           completed, retried, discarded, cancelled, snoozed, waits, runs, wait_seconds, run_seconds
    from jobs.history
    where minutes = any('{1,15,60}') and at >= " [self.from => Timestamptz] " and at < " [self.until => Timestamptz] "
      and (" [self.queue => Nullable<Text>] " is null or queue = " [self.queue => Nullable<Text>] ")
      and (" [self.kind => Nullable<Text>] " is null or kind = " [self.kind => Nullable<Text>] ")
), sums as (
    select step, queue, kind, sum(completed)::bigint as completed, sum(retried)::bigint as retried, sum(discarded)::bigint as discarded,
           sum(cancelled)::bigint as cancelled, sum(snoozed)::bigint as snoozed, sum(wait_seconds) as wait_seconds, sum(run_seconds) as run_seconds
    from part group by step, queue, kind
), bins as (
    select step, queue, kind, bin, coalesce(sum(w), 0)::bigint as w, coalesce(sum(r), 0)::bigint as r
    from part, unnest(waits, runs) with ordinality as u (w, r, bin) group by step, queue, kind, bin
), lists as (
    select step, queue, kind, array_agg(w order by bin) as waits, array_agg(r order by bin) as runs from bins group by step, queue, kind
)
select step, queue, kind, completed, retried, discarded, cancelled, snoozed, coalesce(waits, '{}'), coalesce(runs, '{}'), wait_seconds, run_seconds
from sums left join lists using (step, queue, kind)"
        )
    }
}

native_query!(SeriesQuery<'a> -> (
    BigInt, Text, Text, (BigInt, BigInt, BigInt, BigInt, BigInt), (Array<BigInt>, Array<BigInt>), (Double, Double)
));
