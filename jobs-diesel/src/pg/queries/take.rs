//! `take`: the enqueue of jobs of which at least one has a unique key. The function `jobs.enqueue_unique` decides about the keys, and
//! inserts the jobs that have got theirs.
//!
//! It waits for another transaction that has enqueued the same key and is still open. The jobs come in the order of their keys (`merged` of
//! the core), so two statements that wait for each other's keys do not deadlock.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Interval, Json, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::{Enqueued, JobId, NewJob, UniqueKey, Until};

use super::enqueue::{EnqueueManyQuery, RunTime, args, tags, traceparent};
use crate::error::EnqueueError;
use crate::pg::native::{RawJson, native_query, sql};

/// Returns for each job its place, the id, and the outcome.
pub(crate) struct TakeQuery<'a> {
    columns: EnqueueManyQuery<'a>,
    traceparents: Vec<Option<&'a str>>,
    flows: Vec<Option<RawJson>>,
    names: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    started: Vec<Option<bool>>,
    /// In seconds.
    within: Vec<Option<f64>>,
    rules: Vec<Option<RawJson>>,
}

impl<'a> TakeQuery<'a> {
    /// Returns `None` if no job has a unique key.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        if jobs.iter().all(|job| job.unique.is_none()) {
            return None;
        }
        let uniques = || jobs.iter().map(|job| job.unique.as_deref());
        Some(Self {
            columns: EnqueueManyQuery::new(jobs),
            traceparents: jobs.iter().map(traceparent).collect(),
            flows: jobs.iter().map(flow).collect(),
            names: uniques().map(|unique| Some(&*unique?.name)).collect(),
            keys: uniques().map(|unique| Some(&*unique?.key)).collect(),
            started: uniques().map(|unique| Some(unique?.rule.until == Until::Started)).collect(),
            within: uniques().map(|unique| Some(unique?.rule.within?.as_secs_f64())).collect(),
            rules: uniques().map(|unique| unique.map(rule)).collect(),
        })
    }
}

fn flow(job: &NewJob) -> Option<RawJson> {
    Some(RawJson(job.limit.as_ref()?.to_json().into_bytes()))
}

fn rule(unique: &UniqueKey) -> RawJson {
    RawJson(unique.to_json().into_bytes())
}

/// The answers in the order of the jobs.
pub(crate) fn answers(jobs: &[NewJob], mut rows: Vec<(i64, i64, i16)>) -> Result<Vec<Enqueued>, EnqueueError> {
    rows.sort_unstable();
    if let Some(((_, id, _), job)) = rows.iter().zip(jobs).find(|((.., outcome), _)| *outcome == 3) {
        return Err(EnqueueError::exists(job, JobId(*id)));
    }
    let answer = |(_, id, outcome): (i64, i64, i16)| match outcome {
        0 => Enqueued::new(JobId(id)),
        1 => Enqueued::existing(JobId(id)),
        _ => Enqueued::replaced(JobId(id)),
    };
    Ok(rows.into_iter().map(answer).collect())
}

impl QueryFragment<Pg> for TakeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let all = &self.columns;
        sql!(
            out,
            "select place, id, outcome from jobs.enqueue_unique("
            [self.names => Array<Nullable<Text>>] ", " [self.keys => Array<Nullable<Text>>] ", " [self.started => Array<Nullable<Bool>>] ", "
            [self.within => Array<Nullable<Double>>] ", " [self.rules => Array<Nullable<Json>>] ", " [all.kinds => Array<Text>] ", "
            [all.queues => Array<Text>] ", " [all.priorities => Array<SmallInt>] ", " [all.delays => Array<Interval>] ", "
            [all.not_before => Array<Nullable<Timestamptz>>] ", " [all.max_attempts => Array<SmallInt>] ", " [all.tags => Array<Nullable<Text>>] ", "
            [all.args => Array<Json>] ", " [self.traceparents => Array<Nullable<Text>>] ", " [self.flows => Array<Nullable<Json>>] ")"
        )
    }
}

native_query!(TakeQuery<'a> -> (BigInt, BigInt, SmallInt));

/// The same for one job, which has a unique key.
pub(crate) struct TakeOneQuery<'a> {
    job: &'a NewJob,
    rule: RawJson,
    run_at: RunTime,
    max_attempts: i16,
    tags: Option<&'a [String]>,
    args: RawJson,
    traceparent: Option<&'a str>,
    flow: Option<RawJson>,
}

impl<'a> TakeOneQuery<'a> {
    /// Returns `None` if these are several jobs, or the job has no key.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let [job] = jobs else { return None };
        Some(Self {
            job,
            rule: rule(job.unique.as_deref()?),
            run_at: RunTime::new(job),
            max_attempts: job.max_attempts.cast_signed(),
            tags: tags(job),
            args: args(job),
            traceparent: traceparent(job),
            flow: flow(job),
        })
    }
}

impl QueryFragment<Pg> for TakeOneQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select 1::bigint, id, outcome from jobs.enqueue_unique_one(" [self.rule => Json] ", " [self.job.kind => Text] ", " [self.job.queue => Text] ", "
            [self.job.priority => SmallInt] ", " {self.run_at} ", " [self.max_attempts => SmallInt] ", " [self.tags => Nullable<Array<Text>>] ", "
            [self.args => Json] ", " [self.traceparent => Nullable<Text>] ", " [self.flow => Nullable<Json>] ")"
        )
    }
}

native_query!(TakeOneQuery<'a> -> (BigInt, BigInt, SmallInt));
