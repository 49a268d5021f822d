//! `enqueue_held`: the enqueue of jobs, at least one of which has a rule. Those with rules go to `jobs.held`, with a
//! nudge for each of their keys. It takes no lock, and no other transaction can make it wait. Otherwise it is
//! `enqueue`.

use std::borrow::Cow;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::{NewJob, StoredRules};

use super::columns::HELD;
use super::enqueue::{ARRAYS, Arrays, COLUMNS, COLUMNS_OF_ARRAYS, Later, RunTime, Values, args, traceparent};
use super::wake::{A_WORKER_IS_IDLE, ADMISSION_WOKEN};
use crate::pg::native::{RawJson, native_query, sql};

/// Returns for each job whether it is held, and its id. It sends what the columns need besides the JSON of the rules,
/// because reading it from there would take the server longer than the insert.
pub(crate) struct EnqueueHeldQuery<'a> {
    arrays: Arrays<'a>,
    traceparents: Vec<Option<&'a str>>,
    rules: Vec<Option<RawJson>>,
    flags: Vec<i32>,
    names: Vec<Option<Cow<'a, str>>>,
    keys: Vec<Option<Cow<'a, str>>>,
    most: Vec<Option<i32>>,
    /// Each name and key once.
    nudged_names: Vec<Cow<'a, str>>,
    nudged_keys: Vec<Cow<'a, str>>,
}

impl<'a> EnqueueHeldQuery<'a> {
    /// Returns `None` if no job has a rule.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        if jobs.iter().all(|job| job.rules.is_empty()) {
            return None;
        }
        let stored: Vec<Option<StoredRules<'a>>> = jobs.iter().map(|job| job.rules.to_stored()).collect();
        let mut nudged: Vec<_> = stored.iter().flatten().map(|rules| (rules.name.clone(), rules.key.clone())).collect();
        nudged.sort_unstable();
        nudged.dedup();
        let (nudged_names, nudged_keys) = nudged.into_iter().unzip();
        let mut query = Self {
            arrays: Arrays::new(jobs),
            traceparents: jobs.iter().map(traceparent).collect(),
            rules: Vec::with_capacity(jobs.len()),
            flags: Vec::with_capacity(jobs.len()),
            names: Vec::with_capacity(jobs.len()),
            keys: Vec::with_capacity(jobs.len()),
            most: Vec::with_capacity(jobs.len()),
            nudged_names,
            nudged_keys,
        };
        for rules in stored {
            query.flags.push(rules.as_ref().map_or(0, |rules| rules.flags));
            query.most.push(rules.as_ref().map(|rules| rules.most.cast_signed()));
            query.names.push(rules.as_ref().map(|rules| rules.name.clone()));
            query.keys.push(rules.as_ref().map(|rules| rules.key.clone()));
            query.rules.push(rules.map(|rules| RawJson(rules.json.into_bytes())));
        }
        Some(query)
    }
}

/// Puts the ids into the order of the jobs. The ids of each of the two tables ascend in that order.
pub(crate) fn in_order(jobs: &[NewJob], mut rows: Vec<(bool, i64)>) -> Vec<i64> {
    rows.sort_unstable();
    let (held, plain): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(is_held, _)| *is_held);
    let (mut held, mut plain) = (held.into_iter(), plain.into_iter());
    jobs.iter()
        .filter_map(|job| if job.rules.is_empty() { plain.next() } else { held.next() })
        .map(|(_, id)| id)
        .collect()
}

// Without an `order by`: `unnest` returns the rows in the order of the arrays, and a plan that reads from it alone
// cannot change that.
impl QueryFragment<Pg> for EnqueueHeldQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with job as materialized (
    select " COLUMNS_OF_ARRAYS ", traceparent,
           rules, flags, coalesce(delay operator(pg_catalog.>) interval '0' or not_before operator(pg_catalog.>) pg_catalog.clock_timestamp(), false) as later, limit_name, limit_key, most
    from unnest(" {self.arrays} ", " [self.traceparents => Array<Nullable<Text>>] ", "
        [self.rules => Array<Nullable<Json>>] ", " [self.flags => Array<Integer>] ", " [self.names => Array<Nullable<Text>>] ", "
        [self.keys => Array<Nullable<Text>>] ", " [self.most => Array<Nullable<Integer>>] ")
        as job (" ARRAYS ", traceparent, rules, flags, limit_name, limit_key, most)
), plain as (
    insert into jobs.ready (" COLUMNS ", traceparent) select " COLUMNS ", traceparent from job where rules is null
    returning id, queue
), held as (
    insert into jobs.held (" COLUMNS ", traceparent, rules, flags, " HELD ")
    select " COLUMNS ", traceparent, rules, flags, " HELD " from job where rules is not null
    returning id
), nudged as (
    insert into jobs.nudge (limit_name, limit_key, place, run_at)
    select *, (select pg_catalog.min(operator(pg_catalog.~) priority) from job where rules is not null),
        least(pg_catalog.statement_timestamp(), (select pg_catalog.min(run_at) from job where rules is not null)) from unnest(" [self.nudged_names => Array<Text>] ", " [self.nudged_keys => Array<Text>] ")
), woken as (
    select jobs.notify_workers(queue) from (select distinct queue from plain) plain where " A_WORKER_IS_IDLE "
    union all select " ADMISSION_WOKEN "
)
select true, id from held where (select pg_catalog.count(*) from woken) operator(pg_catalog.>=) 0 union all select false, id from plain"
        )
    }
}

native_query!(EnqueueHeldQuery<'a> -> (Bool, BigInt));

/// The same for one job, which has rules. Returns its id.
pub(crate) struct EnqueueHeldOneQuery<'a> {
    values: Values<'a>,
    args: RawJson,
    later: Later,
    traceparent: Option<&'a str>,
    name: Cow<'a, str>,
    key: Cow<'a, str>,
    most: i32,
    rules: RawJson,
    flags: i32,
}

impl<'a> EnqueueHeldOneQuery<'a> {
    /// Returns `None` if these are several jobs, or the job has no rules.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let [job] = jobs else { return None };
        let StoredRules { name, key, most, flags, json, .. } = job.rules.to_stored()?;
        Some(Self {
            values: Values::new(job),
            args: args(job),
            later: Later(RunTime::new(job)),
            traceparent: traceparent(job),
            name,
            key,
            most: most.cast_signed(),
            rules: RawJson(json.into_bytes()),
            flags,
        })
    }
}

impl QueryFragment<Pg> for EnqueueHeldOneQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with nudged as (
    insert into jobs.nudge (limit_name, limit_key, place, run_at)
    values (" [self.name => Text] ", " [self.key => Text] ", operator(pg_catalog.~) " [self.values.priority => SmallInt] ", least(pg_catalog.statement_timestamp(), " {self.later.0} "))
)
insert into jobs.held (" COLUMNS ", traceparent, rules, flags, " HELD ")
values (" {self.values} ", " [self.args => Json] ", " [self.traceparent => Nullable<Text>] ", " [self.rules => Json] ", " [self.flags => Integer] ", "
            {self.later} ", " [self.name => Text] ", " [self.key => Text] ", " [self.most => Integer] ")
        returning id, " ADMISSION_WOKEN " is not null"
        )
    }
}

native_query!(EnqueueHeldOneQuery<'a> -> (BigInt, Bool));
