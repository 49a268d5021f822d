//! `enqueue_unique` for one job, which has a unique key. Usually no other job has the key and the job has no limit:
//! then `jobs.enqueue_unique_free` inserts both with one statement.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Bool, Double, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::{NewJob, UniqueKey, Until};

use super::enqueue::{Values, args, traceparent};
use super::enqueue_unique::{stored, unique_rule};
use crate::pg::native::{RawJson, native_query, sql};

/// Returns 1, the id, and the outcome.
pub(crate) struct EnqueueUniqueOneQuery<'a> {
    parameters: Parameters<'a>,
    unique_rule: RawJson,
    rules: Option<RawJson>,
}

/// The parameters that both functions have.
struct Parameters<'a> {
    key: &'a UniqueKey,
    values: Values<'a>,
    args: RawJson,
    traceparent: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    fn new(job: &'a NewJob, key: &'a UniqueKey) -> Self {
        Self { key, values: Values::new(job), args: args(job), traceparent: traceparent(job) }
    }
}

impl QueryFragment<Pg> for Parameters<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, {self.values} ", " [self.args => Json] ", " [self.traceparent => Nullable<Text>])
    }
}

impl<'a> EnqueueUniqueOneQuery<'a> {
    /// Returns `None` if these are several jobs, or the job has no key or no rules.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let [job] = jobs else { return None };
        let key = job.unique.as_deref()?;
        if job.rules.is_empty() || job.expires.is_some() {
            return None;
        }
        Some(Self { parameters: Parameters::new(job, key), unique_rule: unique_rule(key), rules: stored(&job.rules) })
    }
}

impl QueryFragment<Pg> for EnqueueUniqueOneQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let key = self.parameters.key;
        sql!(
            out,
            "select 1::bigint, id, outcome from jobs.enqueue_unique_one(" [key.name => Text] ", " [key.key => Text] ", " [self.unique_rule => Json] ", "
            {self.parameters} ", " [self.rules => Nullable<Json>] ")"
        )
    }
}

native_query!(EnqueueUniqueOneQuery<'a> -> (BigInt, BigInt, SmallInt));

/// The same for a job without rules.
pub(crate) struct EnqueueUniqueFreeQuery<'a> {
    parameters: Parameters<'a>,
    started: bool,
    within: Option<f64>,
    unique_rule: String,
}

impl<'a> EnqueueUniqueFreeQuery<'a> {
    /// Returns `None` if these are several jobs, or the job has no key, or rules.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let [job] = jobs else { return None };
        let key = job.unique.as_deref()?;
        if !job.rules.is_empty() || job.expires.is_some() {
            return None;
        }
        let (started, within) = (key.rule.until == Until::Started, key.rule.within.map(|within| within.as_secs_f64()));
        Some(Self { parameters: Parameters::new(job, key), started, within, unique_rule: key.rule.to_json() })
    }
}

impl QueryFragment<Pg> for EnqueueUniqueFreeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let key = self.parameters.key;
        sql!(
            out,
            "select 1::bigint, id, outcome from jobs.enqueue_unique_free(" [key.name => Text] ", " [key.key => Text] ", " [self.started => Bool] ", "
            [self.within => Nullable<Double>] ", " [self.unique_rule => Text] ", " {self.parameters} ")"
        )
    }
}

native_query!(EnqueueUniqueFreeQuery<'a> -> (BigInt, BigInt, SmallInt));
