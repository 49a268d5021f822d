//! `enqueue_unique` for many jobs without a limit that differ only in their arguments and their unique keys, as in most
//! bulks. The common values are sent once.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::{Enqueued, NewJob, UniqueKey, Until};

use super::enqueue::{Values, args, traceparent};
use super::enqueue_unique::answered;
use crate::error::EnqueueError;
use crate::pg::native::{RawJson, native_query, sql};

/// Returns the ids, and the outcomes if another job has one of the keys.
pub(crate) struct EnqueueUniqueAlikeQuery<'a> {
    values: Values<'a>,
    first: &'a UniqueKey,
    started: bool,
    within: Option<f64>,
    rule: String,
    keys: Vec<&'a str>,
    args: Vec<RawJson>,
    traceparent: Option<&'a str>,
}

impl<'a> EnqueueUniqueAlikeQuery<'a> {
    /// Returns `None` if a job has no key, or rules, or differs in anything else.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let job = jobs.first().filter(|job| job.rules.is_empty() && job.expires.is_none())?;
        let first = job.unique.as_deref()?;
        let key = |other: &'a NewJob| {
            let key = other.unique.as_deref()?;
            let alike = key.rule == first.rule && key.name == first.name && other.is_like_but_key(job);
            alike.then_some(&*key.key)
        };
        let keys: Option<Vec<&str>> = jobs.iter().map(key).collect();
        Some(Self {
            values: Values::new(job),
            first,
            started: first.rule.until == Until::Started,
            within: first.rule.within.map(|within| within.as_secs_f64()),
            rule: first.rule.to_json(),
            keys: keys?,
            args: jobs.iter().map(args).collect(),
            traceparent: traceparent(job),
        })
    }
}

/// The answers in the order of the jobs.
pub(crate) fn answers(jobs: &[NewJob], row: (Vec<i64>, Option<Vec<i16>>)) -> Result<Vec<Enqueued>, EnqueueError> {
    let (ids, outcomes) = row;
    let outcomes = outcomes.unwrap_or_else(|| vec![0; ids.len()]);
    answered(jobs.iter().zip(ids).zip(outcomes).map(|((job, id), outcome)| (job, id, outcome)))
}

impl QueryFragment<Pg> for EnqueueUniqueAlikeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select ids, outcomes from jobs.enqueue_unique_alike(" [self.first.name => Text] ", " [self.keys => Array<Text>] ", " [self.started => Bool] ", "
            [self.within => Nullable<Double>] ", " [self.rule => Text] ", " {self.values} ", " [self.args => Array<Json>] ", "
            [self.traceparent => Nullable<Text>] ")"
        )
    }
}

native_query!(EnqueueUniqueAlikeQuery<'a> -> (Array<BigInt>, Nullable<Array<SmallInt>>));
