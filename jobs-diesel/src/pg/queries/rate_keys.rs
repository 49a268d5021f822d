//! `rate_keys`: the keys with a rate that hold jobs back. Keys are found by one probe each in `held_rate`. Rows are
//! counted up to a limit. So a bounded number of entries is read. It locks no rows.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Json, Nullable, Text, Timestamptz};
use diesel_jobs_core::JobRule;
use diesel_jobs_core::storage::{AfterKey, Count, RateKey};

use super::limit_keys::{READ, count};
use crate::pg::native::{RawJson, native_query, sql};

pub(crate) struct RateKeysQuery {
    after: AfterKey,
    most: i64,
}

impl RateKeysQuery {
    pub(crate) fn new(after: Option<AfterKey>, most: usize) -> Self {
        Self { after: after.unwrap_or_default(), most: i64::try_from(most).unwrap_or(i64::MAX) }
    }
}

/// The name and the key; the rule of the next job; the number of rows that were read; the number of due jobs, and the
/// run time of the oldest one; the time of the token.
pub(crate) type RateKeyRow =
    (String, String, Option<RawJson>, (i64, i64, Option<DateTime<Utc>>), Option<DateTime<Utc>>);

/// `None` if the rule of the job is no rate, because the row was changed by hand.
pub(crate) fn key((name, key, rule, (read, due, oldest), next_token): RateKeyRow) -> Option<RateKey> {
    let JobRule { rule, .. } = serde_json::from_slice(&rule?.0).ok().filter(|rule: &JobRule| rule.rule.is_rate())?;
    let held = Count { is_exact: read < READ, ..count(due) };
    Some(RateKey { name, key, rule, held, oldest, next_token })
}

impl QueryFragment<Pg> for RateKeysQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with recursive keys (name, key, rules, flags, n) as (
    (select h.limit_name, h.limit_key, h.rules, h.flags, 1::bigint from jobs.held h
     where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (" [self.after.0 => Text] ", " [self.after.1 => Text] ")
     order by h.limit_name, h.limit_key, ~h.priority, h.run_at, h.id limit 1)
    union all
    select next.limit_name, next.limit_key, next.rules, next.flags, keys.n + 1 from keys cross join lateral (
        select h.limit_name, h.limit_key, h.rules, h.flags from jobs.held h
        where not h.later and not h.paused and h.flags & 8 <> 0 and (h.limit_name, h.limit_key) > (keys.name, keys.key)
        order by h.limit_name, h.limit_key, ~h.priority, h.run_at, h.id limit 1
    ) next where keys.n < " [self.most => BigInt] "
)
select name, key, case when flags & 128 = 0 then rules -> 0 else jobs.rule_of(rules, name) end, held.read, held.due, held.oldest,
       (select r.next_at::timestamptz from jobs.rate r where r.limit_name = keys.name and r.limit_key = keys.key)
from keys cross join lateral (
    select count(*) as read, count(*) filter (where part.run_at <= now()) as due,
           min(part.run_at) filter (where part.run_at <= now()) as oldest
    from (select h.run_at::timestamptz as run_at from jobs.held h where not h.later and not h.paused and h.flags & 8 <> 0
          and h.limit_name = keys.name and h.limit_key = keys.key limit " [READ => BigInt] ") part
) held
order by n limit " [self.most => BigInt]
        )
    }
}

native_query!(RateKeysQuery -> (
    Text, Text, Nullable<Json>, (BigInt, BigInt, Nullable<Timestamptz>), Nullable<Timestamptz>
));
