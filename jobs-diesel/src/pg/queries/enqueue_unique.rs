//! `enqueue_unique`: the enqueue of jobs, at least one of which has a unique key or expires. The function
//! `jobs.enqueue_unique` decides about the keys, and inserts the jobs that obtained their key. `enqueue_unique_alike`
//! and `enqueue_unique_one` are shorter.
//!
//! It waits for another transaction that has enqueued the same key and is still open. The jobs come in the order of
//! their keys (`merged` of the core), so two statements that wait for each other's keys do not deadlock.

use diesel::QueryResult;
use diesel::data_types::PgInterval;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Interval, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::{Enqueued, JobId, NewJob, Rules, UniqueKey, Until};

use super::enqueue::{Arrays, delay, traceparent};
use crate::error::EnqueueError;
use crate::pg::native::{RawJson, native_query, sql};

/// Returns for each job its place, the id, and the outcome.
pub(crate) struct EnqueueUniqueQuery<'a> {
    arrays: Arrays<'a>,
    traceparents: Vec<Option<&'a str>>,
    rules: Vec<Option<RawJson>>,
    names: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    started: Vec<Option<bool>>,
    /// In seconds.
    within: Vec<Option<f64>>,
    unique_rules: Vec<Option<RawJson>>,
    expires: Vec<Option<PgInterval>>,
}

impl<'a> EnqueueUniqueQuery<'a> {
    /// Returns `None` if no job has a unique key or expires.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        if jobs.iter().all(|job| job.unique.is_none() && job.expires.is_none()) {
            return None;
        }
        let uniques = || jobs.iter().map(|job| job.unique.as_deref());
        Some(Self {
            arrays: Arrays::new(jobs),
            traceparents: jobs.iter().map(traceparent).collect(),
            rules: jobs.iter().map(|job| stored(&job.rules)).collect(),
            names: uniques().map(|unique| Some(&*unique?.name)).collect(),
            keys: uniques().map(|unique| Some(&*unique?.key)).collect(),
            started: uniques().map(|unique| Some(unique?.rule.until == Until::Started)).collect(),
            within: uniques().map(|unique| Some(unique?.rule.within?.as_secs_f64())).collect(),
            unique_rules: uniques().map(|unique| unique.map(unique_rule)).collect(),
            expires: jobs.iter().map(|job| job.expires.map(delay)).collect(),
        })
    }
}

pub(super) fn stored(rules: &Rules) -> Option<RawJson> {
    rules.to_json().map(|json| RawJson(json.into_bytes()))
}

pub(super) fn unique_rule(unique: &UniqueKey) -> RawJson {
    RawJson(unique.rule.to_json().into_bytes())
}

/// The answers in the order of the jobs.
pub(crate) fn answers(jobs: &[NewJob], mut rows: Vec<(i64, i64, i16)>) -> Result<Vec<Enqueued>, EnqueueError> {
    rows.sort_unstable();
    let decided = jobs.iter().zip(rows).map(|(job, (_, id, outcome))| (job, id, outcome));
    answered(decided)
}

/// The results for jobs in this order, each with an id and an outcome. If the outcome of one job is an error, returns
/// this error.
pub(super) fn answered<'a>(
    decided: impl Iterator<Item = (&'a NewJob, i64, i16)> + Clone,
) -> Result<Vec<Enqueued>, EnqueueError> {
    if let Some((job, id, _)) = decided.clone().find(|(.., outcome)| *outcome == 3) {
        return Err(EnqueueError::exists(job, JobId(id)));
    }
    let answer = |(_, id, outcome): (&NewJob, i64, i16)| match outcome {
        0 => Enqueued::new(JobId(id)),
        1 => Enqueued::existing(JobId(id)),
        _ => Enqueued::replaced(JobId(id)),
    };
    Ok(decided.map(answer).collect())
}

impl QueryFragment<Pg> for EnqueueUniqueQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select place, id, outcome from jobs.enqueue_unique("
            [self.names => Array<Nullable<Text>>] ", " [self.keys => Array<Nullable<Text>>] ", " [self.started => Array<Nullable<Bool>>] ", "
            [self.within => Array<Nullable<Double>>] ", " [self.unique_rules => Array<Nullable<Json>>] ", " {self.arrays} ", " [self.traceparents => Array<Nullable<Text>>] ", " [self.rules => Array<Nullable<Json>>] ", "
            [self.expires => Array<Nullable<Interval>>] ")"
        )
    }
}

native_query!(EnqueueUniqueQuery<'a> -> (BigInt, BigInt, SmallInt));
