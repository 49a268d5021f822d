//! `enqueue_held` for many jobs with one rule that differ only in their arguments and in the keys of their rule, as in
//! most bulks. The common values are sent once.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::{NewJob, StoredRules};

use super::columns::HELD;
use super::enqueue::{COLUMNS, Later, RunTime, Values, args, traceparent};
use super::enqueue_unique::stored;
use super::wake::ADMISSION_WOKEN;
use crate::pg::native::{RawJson, native_query, sql};

/// Returns the ids in the order of the jobs.
pub(crate) struct EnqueueHeldAlikeQuery<'a> {
    values: Values<'a>,
    later: Later,
    traceparent: Option<&'a str>,
    name: &'a str,
    most: i32,
    flags: i32,
    args: Vec<RawJson>,
    rules: Vec<RawJson>,
    keys: Vec<&'a str>,
    /// Each key once.
    nudged: Vec<&'a str>,
}

impl<'a> EnqueueHeldAlikeQuery<'a> {
    /// Returns `None` if a job has no rule, or differs in anything else.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let first = jobs.first()?;
        let StoredRules { most, flags, .. } = first.rules.to_stored()?;
        let [rule] = &*first.rules else { return None };
        if !jobs.iter().all(|job| job.is_like_but_rule_key(first)) {
            return None;
        }
        let keys: Vec<&str> = jobs.iter().flat_map(|job| job.rules.iter()).map(|rule| &*rule.key).collect();
        let mut nudged = keys.clone();
        nudged.sort_unstable();
        nudged.dedup();
        Some(Self {
            values: Values::new(first),
            later: Later(RunTime::new(first)),
            traceparent: traceparent(first),
            name: &rule.name,
            most: most.cast_signed(),
            flags,
            args: jobs.iter().map(args).collect(),
            rules: jobs.iter().filter_map(|job| stored(&job.rules)).collect(),
            keys,
            nudged,
        })
    }
}

// `unnest` returns the rows in the order of the arrays. A plan that reads from one function cannot change this order.
impl QueryFragment<Pg> for EnqueueHeldAlikeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with nudged as (
    insert into jobs.nudge (limit_name, limit_key, place, run_at)
    select " [self.name => Text] ", key, operator(pg_catalog.~) " [self.values.priority => SmallInt] ", least(pg_catalog.statement_timestamp(), " {self.later.0} ") from pg_catalog.unnest(" [self.nudged => Array<Text>] ") as key
), woken as (
    select " ADMISSION_WOKEN "
)
insert into jobs.held (" COLUMNS ", traceparent, rules, flags, " HELD ")
select " {self.values} ", args, " [self.traceparent => Nullable<Text>] ", rules, " [self.flags => Integer] ", "
            {self.later} ", " [self.name => Text] ", key, " [self.most => Integer] "
from unnest(" [self.args => Array<Json>] ", " [self.rules => Array<Json>] ", " [self.keys => Array<Text>] ") as job (args, rules, key)
returning id operator(pg_catalog.+) (select pg_catalog.count(*) operator(pg_catalog.*) 0 from woken)"
        )
    }
}

native_query!(EnqueueHeldAlikeQuery<'a> -> BigInt);
