//! `hold`: the enqueue of jobs, at least one of which has a limit. Those with a limit go to `jobs.held`, with a nudge for each of their
//! keys. It takes no lock, and no other transaction can make it wait. Otherwise it is `enqueue`.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::{JobLimit, NewJob};

use super::columns::HELD;
use super::enqueue::{ARRAYS, Arrays, COLUMNS, COLUMNS_OF_ARRAYS, Later, RunTime, Values, args, traceparent};
use super::wake::{A_WORKER_IS_IDLE, ADMISSION_WOKEN};
use crate::pg::native::{RawJson, native_query, sql};

/// Returns for each job whether it is held, and its id. It sends what the columns need besides the JSON of the limit, because reading it from
/// there would take the server longer than the insert.
pub(crate) struct HoldQuery<'a> {
    arrays: Arrays<'a>,
    traceparents: Vec<Option<&'a str>>,
    flows: Vec<Option<RawJson>>,
    flags: Vec<i32>,
    names: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    most: Vec<Option<i32>>,
    /// Each name and key once.
    nudged_names: Vec<&'a str>,
    nudged_keys: Vec<&'a str>,
}

impl<'a> HoldQuery<'a> {
    /// Returns `None` if no job has a limit.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        if jobs.iter().all(|job| job.limit.is_none()) {
            return None;
        }
        let limits = || jobs.iter().map(|job| job.limit.as_deref());
        let mut nudged: Vec<_> = limits().flatten().map(|limit| (&*limit.name, &*limit.key)).collect();
        nudged.sort_unstable();
        nudged.dedup();
        let (nudged_names, nudged_keys) = nudged.into_iter().unzip();
        Some(Self {
            arrays: Arrays::new(jobs),
            traceparents: jobs.iter().map(traceparent).collect(),
            flows: limits().map(|limit| limit.map(flow)).collect(),
            flags: limits().map(|limit| limit.map_or(0, JobLimit::flags)).collect(),
            names: limits().map(|limit| limit.map(|limit| &*limit.name)).collect(),
            keys: limits().map(|limit| limit.map(|limit| &*limit.key)).collect(),
            most: limits().map(|limit| limit.map(|limit| limit.most.cast_signed())).collect(),
            nudged_names,
            nudged_keys,
        })
    }
}

pub(super) fn flow(limit: &JobLimit) -> RawJson {
    RawJson(limit.to_json().into_bytes())
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

// Without an `order by`: `unnest` returns the rows in the order of the arrays, and a plan that reads from it alone cannot change that.
impl QueryFragment<Pg> for HoldQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with job as materialized (
    select " COLUMNS_OF_ARRAYS ", traceparent,
           flow, flags, coalesce(delay > interval '0' or not_before > clock_timestamp(), false) as later, limit_name, limit_key, most
    from unnest(" {self.arrays} ", " [self.traceparents => Array<Nullable<Text>>] ", "
        [self.flows => Array<Nullable<Json>>] ", " [self.flags => Array<Integer>] ", " [self.names => Array<Nullable<Text>>] ", "
        [self.keys => Array<Nullable<Text>>] ", " [self.most => Array<Nullable<Integer>>] ")
        as job (" ARRAYS ", traceparent, flow, flags, limit_name, limit_key, most)
), plain as (
    insert into jobs.ready (" COLUMNS ", traceparent) select " COLUMNS ", traceparent from job where flow is null
    returning id, queue
), held as (
    insert into jobs.held (" COLUMNS ", traceparent, flow, flags, " HELD ")
    select " COLUMNS ", traceparent, flow, flags, " HELD " from job where flow is not null
    returning id
), nudged as (
    insert into jobs.nudge (limit_name, limit_key, place, run_at)
    select *, (select min(~priority) from job where flow is not null), statement_timestamp() from unnest(" [self.nudged_names => Array<Text>] ", " [self.nudged_keys => Array<Text>] ")
), woken as (
    select pg_notify('jobs', queue) from (select distinct queue from plain) plain where " A_WORKER_IS_IDLE "
    union all select " ADMISSION_WOKEN "
)
select true, id from held where (select count(*) from woken) >= 0 union all select false, id from plain"
        )
    }
}

native_query!(HoldQuery<'a> -> (Bool, BigInt));

/// The same for one job, which has a limit. Returns its id.
pub(crate) struct HoldOneQuery<'a> {
    values: Values<'a>,
    args: RawJson,
    later: Later,
    traceparent: Option<&'a str>,
    limit: &'a JobLimit,
    most: i32,
    flow: RawJson,
    flags: i32,
}

impl<'a> HoldOneQuery<'a> {
    /// Returns `None` if these are several jobs, or the job has no limit.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let [job] = jobs else { return None };
        let limit = job.limit.as_deref()?;
        Some(Self {
            values: Values::new(job),
            args: args(job),
            later: Later(RunTime::new(job)),
            traceparent: traceparent(job),
            limit,
            most: limit.most.cast_signed(),
            flow: flow(limit),
            flags: limit.flags(),
        })
    }
}

impl QueryFragment<Pg> for HoldOneQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with nudged as (
    insert into jobs.nudge (limit_name, limit_key, place, run_at)
    values (" [self.limit.name => Text] ", " [self.limit.key => Text] ", ~(" [self.values.priority => SmallInt] "), statement_timestamp())
)
insert into jobs.held (" COLUMNS ", traceparent, flow, flags, " HELD ")
values (" {self.values} ", " [self.args => Json] ", " [self.traceparent => Nullable<Text>] ", " [self.flow => Json] ", " [self.flags => Integer] ", "
            {self.later} ", " [self.limit.name => Text] ", " [self.limit.key => Text] ", " [self.most => Integer] ")
        returning id, " ADMISSION_WOKEN " is not null"
        )
    }
}

native_query!(HoldOneQuery<'a> -> (BigInt, Bool));
