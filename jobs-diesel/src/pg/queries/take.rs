//! `take`: the enqueue of jobs of which at least one has a unique key. The function `jobs.enqueue_unique` decides about the keys, and
//! inserts the jobs that have got theirs.
//!
//! It waits for another transaction that has enqueued the same key and is still open. The jobs come in the order of their keys (`merged` of
//! the core), so two statements that wait for each other's keys do not deadlock.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Interval, Json, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::{Enqueued, JobId, JobLimit, NewJob, UniqueKey};

use super::enqueue::{EnqueueManyQuery, traceparent};
use crate::error::EnqueueError;
use crate::pg::native::{RawJson, native_query, sql};

/// Returns for each job its place, the id, and the outcome.
pub(crate) struct TakeQuery<'a> {
    columns: EnqueueManyQuery<'a>,
    traceparents: Vec<Option<&'a str>>,
    flows: Vec<Option<RawJson>>,
    rules: Vec<Option<RawJson>>,
}

impl<'a> TakeQuery<'a> {
    /// Returns `None` if no job has a unique key.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        if jobs.iter().all(|job| job.unique.is_none()) {
            return None;
        }
        let json = |text: String| RawJson(text.into_bytes());
        Some(Self {
            columns: EnqueueManyQuery::new(jobs),
            traceparents: jobs.iter().map(traceparent).collect(),
            flows: jobs.iter().map(|job| job.limit.as_deref().map(JobLimit::to_json).map(json)).collect(),
            rules: jobs.iter().map(|job| job.unique.as_deref().map(UniqueKey::to_json).map(json)).collect(),
        })
    }
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
            "select taken.place, taken.id, taken.outcome
from (
    select array_agg(rule order by place) as rules, array_agg(kind order by place) as kinds, array_agg(queue order by place) as queues,
           array_agg(priority order by place) as priorities, array_agg(greatest(clock_timestamp() + delay, not_before) order by place) as run_ats,
           array_agg(max_attempts order by place) as max_attempts, array_agg(tags order by place) as tags, array_agg(args order by place) as args,
           array_agg(traceparent order by place) as traceparents, array_agg(flow order by place) as flows
    from unnest(" [all.kinds => Array<Text>] ", " [all.queues => Array<Text>] ", " [all.priorities => Array<SmallInt>] ", "
        [all.delays => Array<Interval>] ", " [all.not_before => Array<Nullable<Timestamptz>>] ", " [all.max_attempts => Array<SmallInt>] ", "
        [all.tags => Array<Nullable<Text>>] ", " [all.args => Array<Json>] ", " [self.traceparents => Array<Nullable<Text>>] ", "
        [self.flows => Array<Nullable<Json>>] ", " [self.rules => Array<Nullable<Json>>] ")
        with ordinality as job (kind, queue, priority, delay, not_before, max_attempts, tags, args, traceparent, flow, rule, place)
) job cross join lateral jobs.enqueue_unique(
    job.rules, job.kinds, job.queues, job.priorities, job.run_ats, job.max_attempts, job.tags, job.args, job.traceparents, job.flows
) taken"
        )
    }
}

native_query!(TakeQuery<'a> -> (BigInt, BigInt, SmallInt));
