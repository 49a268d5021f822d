//! `enqueue`: a plain insert for one job, which also sends the notification. The columns and values of all other
//! inserts of new jobs are here, too.
//!
//! `run_at` is computed from the database's clock at the insert and is never earlier than that clock. So a new job is
//! not below the time that claims have already passed. This is native SQL and not Diesel's DSL, because of that
//! computation, and because the notification in `returning` saves a round trip.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::data_types::PgInterval;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Interval, Json, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::{NewJob, RunAt, Traceparent};

use super::wake::A_WORKER_IS_IDLE;
use crate::pg::native::{RawJson, native_query, sql};

/// The most jobs per bulk statement.
pub(crate) const CHUNK: usize = 1000;

pub(super) fn delay(delay: Duration) -> PgInterval {
    PgInterval::from_microseconds(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX))
}

/// Returns the delay from now, and the time before which the job must not start. The later of both is its time.
fn timing(run_at: RunAt) -> (PgInterval, Option<DateTime<Utc>>) {
    let (from_now, not_before) = run_at.parts();
    // A thousand years before now, so that the other time is the later one.
    (from_now.map_or(PgInterval::from_months(-12_000), delay), not_before)
}

pub(super) fn tags(job: &NewJob) -> Option<&[String]> {
    (!job.tags.is_empty()).then_some(job.tags.as_slice())
}

pub(super) fn args(job: &NewJob) -> RawJson {
    RawJson(job.args.as_bytes().to_vec())
}

/// The columns of an insert.
pub(super) const COLUMNS: &str = "kind, queue, priority, run_at, max_attempts, tags, args";

/// The trace context of jobs, if there is one: one more column of an insert. Inserts without one are the statements
/// that they would be without traces.
#[derive(Clone, Copy, Default)]
pub(super) struct TraceColumn(pub(super) bool);

impl TraceColumn {
    pub(super) fn of(jobs: &[NewJob]) -> Self {
        Self(jobs.iter().any(|job| job.traceparent.is_some()))
    }
}

impl QueryFragment<Pg> for TraceColumn {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(if self.0 { ", traceparent" } else { "" });
        Ok(())
    }
}

/// The value of that column, if all jobs of the statement have the same.
pub(super) struct TraceValue<'a>(Option<&'a str>);

impl<'a> TraceValue<'a> {
    pub(super) fn of(job: &'a NewJob) -> Self {
        Self(traceparent(job))
    }
}

impl QueryFragment<Pg> for TraceValue<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match &self.0 {
            Some(traceparent) => sql!(out, ", " [*traceparent => Text]),
            None => Ok(()),
        }
    }
}

pub(super) fn traceparent(job: &NewJob) -> Option<&str> {
    job.traceparent.as_ref().map(Traceparent::as_str)
}

/// The values of a job for all of [`COLUMNS`] but the arguments.
pub(super) struct Values<'a> {
    kind: &'a str,
    queue: &'a str,
    pub(super) priority: i16,
    run_at: RunTime,
    max_attempts: i16,
    tags: Option<&'a [String]>,
}

impl<'a> Values<'a> {
    pub(super) fn new(job: &'a NewJob) -> Self {
        Self {
            kind: &job.kind,
            queue: &job.queue,
            priority: job.priority,
            run_at: RunTime::new(job),
            max_attempts: job.max_attempts.cast_signed(),
            tags: tags(job),
        }
    }
}

/// When the job is due.
pub(super) struct RunTime(PgInterval, Option<DateTime<Utc>>);

impl RunTime {
    pub(super) fn new(job: &NewJob) -> Self {
        let (delay, not_before) = timing(job.run_at);
        Self(delay, not_before)
    }
}

impl QueryFragment<Pg> for RunTime {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "greatest(pg_catalog.clock_timestamp() operator(pg_catalog.+) " [self.0 => Interval] ", " [self.1 => Nullable<Timestamptz>] ")")
    }
}

/// Whether the job is due later.
pub(super) struct Later(pub(super) RunTime);

impl QueryFragment<Pg> for Later {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let RunTime(delay, not_before) = &self.0;
        sql!(out, "coalesce(" [*delay => Interval] " operator(pg_catalog.>) interval '0' or " [*not_before => Nullable<Timestamptz>] " operator(pg_catalog.>) pg_catalog.clock_timestamp(), false)")
    }
}

impl QueryFragment<Pg> for Values<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            [self.kind => Text] ", " [self.queue => Text] ", " [self.priority => SmallInt]
            ", " {self.run_at} ", "
            [self.max_attempts => SmallInt] ", " [self.tags => Nullable<Array<Text>>]
        )
    }
}

pub(crate) struct EnqueueQuery<'a> {
    values: Values<'a>,
    args: RawJson,
}

impl<'a> EnqueueQuery<'a> {
    pub(crate) fn new(job: &'a NewJob) -> Self {
        Self { values: Values::new(job), args: args(job) }
    }
}

impl QueryFragment<Pg> for EnqueueQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.ready (" COLUMNS ") values (" {self.values} ", " [self.args => Json]
            ") returning id, case when " A_WORKER_IS_IDLE " then jobs.notify_workers(queue) is not null end"
        )
    }
}

native_query!(EnqueueQuery<'a> -> (BigInt, Nullable<Bool>));

/// The names of [`Arrays`].
pub(super) const ARRAYS: &str = "kind, queue, priority, delay, not_before, max_attempts, tags, args";

/// All of [`COLUMNS`], from rows of [`ARRAYS`].
pub(super) const COLUMNS_OF_ARRAYS: &str = "kind, queue, priority, greatest(pg_catalog.clock_timestamp() operator(pg_catalog.+) delay, not_before) as run_at, max_attempts, tags::pg_catalog.text[] as tags, args";

/// The values of several jobs, as arrays.
#[derive(Default)]
pub(super) struct Arrays<'a> {
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    priorities: Vec<i16>,
    delays: Vec<PgInterval>,
    not_before: Vec<Option<DateTime<Utc>>>,
    max_attempts: Vec<i16>,
    /// As array literals, because `unnest` would flatten an array of arrays.
    tags: Vec<Option<String>>,
    args: Vec<RawJson>,
}

impl<'a> Arrays<'a> {
    pub(super) fn new(jobs: &'a [NewJob]) -> Self {
        let mut arrays = Self::default();
        for job in jobs {
            let (delay, not_before) = timing(job.run_at);
            arrays.kinds.push(&job.kind);
            arrays.queues.push(&job.queue);
            arrays.priorities.push(job.priority);
            arrays.delays.push(delay);
            arrays.not_before.push(not_before);
            arrays.max_attempts.push(job.max_attempts.cast_signed());
            arrays.tags.push(tags(job).map(array_literal));
            arrays.args.push(args(job));
        }
        arrays
    }
}

impl QueryFragment<Pg> for Arrays<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            [self.kinds => Array<Text>] ", " [self.queues => Array<Text>] ", " [self.priorities => Array<SmallInt>] ", "
            [self.delays => Array<Interval>] ", " [self.not_before => Array<Nullable<Timestamptz>>] ", " [self.max_attempts => Array<SmallInt>] ", "
            [self.tags => Array<Nullable<Text>>] ", " [self.args => Array<Json>]
        )
    }
}

fn array_literal(items: &[String]) -> String {
    let quoted: Vec<String> =
        items.iter().map(|item| format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    format!("{{{}}}", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::array_literal;

    #[test]
    fn an_array_literal_quotes_what_could_end_it() {
        let tags = ["a,b".to_owned(), "\"}".to_owned(), "\\".to_owned()];
        assert_eq!(array_literal(&tags), r#"{"a,b","\"}","\\"}"#);
    }
}
