//! `queue_rates`: how many jobs of each queue were completed, by time. It uses `history_at` and locks no rows. It reads
//! no bins, which take most of the time of `series`.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Text, Timestamptz};
use diesel_jobs_core::history::SeriesBounds;

use crate::pg::native::{native_query, sql};

pub(crate) struct QueueRatesQuery<'a> {
    from: DateTime<Utc>,
    until: DateTime<Utc>,
    step_seconds: f64,
    queues: &'a [String],
}

impl<'a> QueueRatesQuery<'a> {
    pub(crate) fn new(bounds: &SeriesBounds, queues: &'a [String]) -> Self {
        let SeriesBounds { from, until, step_micros } = *bounds;
        Self { from, until, step_seconds: step_micros as f64 / 1e6, queues }
    }
}

/// The queue, the number of the step, and how many jobs were completed.
pub(crate) type QueueRatesRow = (String, i64, i64);

impl QueryFragment<Pg> for QueueRatesQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select queue, floor(extract(epoch from at - " [self.from => Timestamptz] ") / " [self.step_seconds => Double] ")::bigint as step,
       sum(completed)::bigint
from jobs.history
where minutes = any('{1,15,60}') and at >= " [self.from => Timestamptz] " and at < " [self.until => Timestamptz] "
  and queue = any(" [self.queues => Array<Text>] ")
group by queue, step"
        )
    }
}

native_query!(QueueRatesQuery<'a> -> (Text, BigInt, BigInt));
