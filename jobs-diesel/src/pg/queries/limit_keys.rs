//! `limits` and `limit_keys`: how many jobs wait for each limit, and the keys with waiting jobs. Names and keys are
//! found by one probe each in `held_order` and `permit_key`. Rows are counted up to a limit. So a bounded number of
//! entries is read. They lock no rows.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{AfterKey, COUNTED_OF_LIMIT, Count, LimitKey, LimitStats, MOST_LIMITS, MOST_SHOWN};

use crate::pg::native::{native_query, sql};

/// One row more than is counted, which shows that there are more.
pub(super) const READ: i64 = COUNTED_OF_LIMIT.cast_signed() + 1;

const LIMITS: i64 = MOST_LIMITS.cast_signed() as i64;
const HOLDERS: i64 = MOST_SHOWN.cast_signed() as i64;

/// A count that has read at most [`READ`] rows.
pub(super) fn count(jobs: i64) -> Count {
    let jobs = jobs.unsigned_abs();
    Count { jobs: jobs.min(COUNTED_OF_LIMIT), is_exact: jobs <= COUNTED_OF_LIMIT }
}

pub(crate) struct LimitsQuery;

/// The name, held jobs, permits, and whether it is a sequence.
pub(crate) type LimitRow = (String, i64, i64, Option<bool>);

pub(crate) fn limit((name, held, permits, is_sequence): LimitRow) -> LimitStats {
    LimitStats { name, held: count(held), permits: count(permits), is_sequence: is_sequence.unwrap_or_default() }
}

impl QueryFragment<Pg> for LimitsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with recursive limits (name, n) as (
    select least((select h.limit_name from jobs.held h where not h.later and not h.paused and h.flags & 12 = 0 order by h.limit_name limit 1),
                 (select s.limit_name from jobs.permit s order by s.limit_name limit 1)), 1::bigint
    union all
    select least((select h.limit_name from jobs.held h where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name > limits.name order by h.limit_name limit 1),
                 (select s.limit_name from jobs.permit s where s.limit_name > limits.name order by s.limit_name limit 1)), limits.n + 1
    from limits where limits.name is not null and limits.n < " [LIMITS => BigInt] "
)
select name, (select count(*) from (select from jobs.held h where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = limits.name limit " [READ => BigInt] ") held),
       (select count(*) from (select from jobs.permit s where s.limit_name = limits.name limit " [READ => BigInt] ") permits),
       (select s.halted_at is not null or " {InSequence("ready")} " or " {InSequence("running")} " or " {InSequence("held")} "
        from jobs.permit s where s.limit_name = limits.name order by s.limit_name limit 1)
from limits where name is not null order by n"
        )
    }
}

native_query!(LimitsQuery -> (Text, BigInt, BigInt, Nullable<Bool>));

/// Whether the job of the permit `s` is in this table, and has the permit as a job of a sequence.
struct InSequence(&'static str);

impl QueryFragment<Pg> for InSequence {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self(table) = self;
        // Without `offset` the planner may read the whole table.
        sql!(
            out,
            "exists (select from jobs." table " job where job.id = s.job_id and job.rules #> '{0,rule,sequence}' is not null and job.rules #>> '{0,name}' = s.limit_name offset 0)"
        )
    }
}

pub(crate) struct LimitKeysQuery {
    after: AfterKey,
    most: i64,
}

impl LimitKeysQuery {
    pub(crate) fn new(after: Option<AfterKey>, most: usize) -> Self {
        // No limit has an empty name.
        Self { after: after.unwrap_or_default(), most: i64::try_from(most).unwrap_or(i64::MAX) }
    }
}

/// The limit, its permits and the jobs that have them. Then how many of its rows were read, and of the due ones the
/// number and the oldest.
pub(crate) type LimitKeyRow = ((String, String, i32), (i64, Vec<i64>), (i64, i64, Option<DateTime<Utc>>));

pub(crate) fn key(((name, key, most), (taken, holders), (read, due, oldest)): LimitKeyRow) -> LimitKey {
    LimitKey {
        name,
        key,
        most: u32::try_from(most).unwrap_or_default(),
        taken: taken.unsigned_abs(),
        holders: holders.into_iter().map(JobId).collect(),
        held: Count { is_exact: read < READ, ..count(due) },
        oldest,
    }
}

impl QueryFragment<Pg> for LimitKeysQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with recursive keys (name, key, most, n) as (
    (select h.limit_name, h.limit_key, jobs.allowed(h.limit_name, h.most), 1::bigint from jobs.held h
     where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name > '' and (h.limit_name, h.limit_key) > (" [self.after.0 => Text] ", " [self.after.1 => Text] ")
     order by h.limit_name, h.limit_key, ~h.priority, h.run_at, h.id limit 1)
    union all
    select next.limit_name, next.limit_key, jobs.allowed(next.limit_name, next.most), keys.n + 1 from keys cross join lateral (
        select h.limit_name, h.limit_key, h.most from jobs.held h where not h.later and not h.paused and h.flags & 12 = 0 and (h.limit_name, h.limit_key) > (keys.name, keys.key)
        order by h.limit_name, h.limit_key, ~h.priority, h.run_at, h.id limit 1
    ) next where keys.n < " [self.most => BigInt] "
)
select name, key, most,
       (select count(*) from (select from jobs.permit s where s.limit_name = keys.name and s.limit_key = keys.key limit keys.most + 1) taken),
       array(select s.job_id from jobs.permit s where s.limit_name = keys.name and s.limit_key = keys.key order by s.job_id limit " [HOLDERS => BigInt] "),
       held.read, held.due, held.oldest
from keys cross join lateral (
    select count(*) as read, count(*) filter (where part.run_at <= now()) as due,
           min(part.run_at) filter (where part.run_at <= now()) as oldest
    from (select h.run_at::timestamptz as run_at from jobs.held h where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = keys.name and h.limit_key = keys.key
          limit " [READ => BigInt] ") part
) held
order by n limit " [self.most => BigInt]
        )
    }
}

native_query!(LimitKeysQuery -> (
    (Text, Text, Integer), (BigInt, Array<BigInt>), (BigInt, BigInt, Nullable<Timestamptz>)
));
