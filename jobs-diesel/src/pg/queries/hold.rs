//! `hold`: the enqueue of jobs of which at least one has a limit. Those with a limit go to `jobs.held`, with a nudge for each of their
//! keys. It takes no lock, and no other transaction can make it wait. Otherwise it is `enqueue`.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Interval, Json, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::NewJob;

use super::columns::{HELD, HELD_VALUES, NEW_FLAGS};
use super::enqueue::{COLUMNS, EnqueueManyQuery, traceparent};
use super::wake::{A_WORKER_IS_IDLE, ADMISSION_WOKEN};
use crate::pg::native::{RawJson, native_query, sql};

/// Returns for each job whether it is held, and its id.
pub(crate) struct HoldQuery<'a> {
    columns: EnqueueManyQuery<'a>,
    traceparents: Vec<Option<&'a str>>,
    flows: Vec<Option<RawJson>>,
}

impl<'a> HoldQuery<'a> {
    /// Returns `None` if no job has a limit.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        if jobs.iter().all(|job| job.limit.is_none()) {
            return None;
        }
        let flow = |job: &NewJob| job.limit.as_ref().map(|limit| RawJson(limit.to_json().into_bytes()));
        Some(Self {
            columns: EnqueueManyQuery::new(jobs),
            traceparents: jobs.iter().map(traceparent).collect(),
            flows: jobs.iter().map(flow).collect(),
        })
    }
}

/// Puts the ids into the order of the jobs. The ids of each of the two tables ascend in that order.
pub(crate) fn in_order(jobs: &[NewJob], mut rows: Vec<(bool, i64)>) -> Vec<i64> {
    rows.sort_unstable();
    let (held, plain): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(is_held, _)| *is_held);
    let (mut held, mut plain) = (held.into_iter(), plain.into_iter());
    jobs.iter()
        .filter_map(|job| if job.limit.is_some() { held.next() } else { plain.next() })
        .map(|(_, id)| id)
        .collect()
}

impl QueryFragment<Pg> for HoldQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let all = &self.columns;
        sql!(
            out,
            "with job as materialized (
    select kind, queue, priority, greatest(clock_timestamp() + delay, not_before) as run_at, max_attempts, tags::text[] as tags, args, traceparent,
           flow, coalesce(delay > interval '0' or not_before > clock_timestamp(), false) as later, place
    from unnest(" [all.kinds => Array<Text>] ", " [all.queues => Array<Text>] ", " [all.priorities => Array<SmallInt>] ", "
        [all.delays => Array<Interval>] ", " [all.not_before => Array<Nullable<Timestamptz>>] ", " [all.max_attempts => Array<SmallInt>] ", "
        [all.tags => Array<Nullable<Text>>] ", " [all.args => Array<Json>] ", " [self.traceparents => Array<Nullable<Text>>] ", "
        [self.flows => Array<Nullable<Json>>] ")
        with ordinality as job (kind, queue, priority, delay, not_before, max_attempts, tags, args, traceparent, flow, place)
), plain as (
    insert into jobs.ready (" COLUMNS ", traceparent) select " COLUMNS ", traceparent from job where flow is null order by place
    returning id, queue
), held as (
    insert into jobs.held (" COLUMNS ", traceparent, flow, flags, " HELD ")
    select " COLUMNS ", traceparent, flow, " NEW_FLAGS ", later, " HELD_VALUES " from job where flow is not null order by place
    returning id
), nudged as (
    insert into jobs.nudge (limit_name, limit_key) select distinct flow ->> 'limit', flow ->> 'key' from job where flow is not null
), woken as (
    select pg_notify('jobs', queue) from (select distinct queue from plain) plain where " A_WORKER_IS_IDLE "
    union all select " ADMISSION_WOKEN "
)
select true, id from held where (select count(*) from woken) >= 0 union all select false, id from plain"
        )
    }
}

native_query!(HoldQuery<'a> -> (Bool, BigInt));
