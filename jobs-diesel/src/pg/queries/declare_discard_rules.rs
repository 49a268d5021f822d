//! `declare_discard_rules`: stores what is enqueued when jobs of these kinds are discarded. Rules that are stored
//! already are only read, so that workers that start at the same time do not wait for each other. The rows are locked
//! in the order of their kinds, and by one statement per transaction, so that two programs cannot deadlock.
//!
//! The testing kit reads the rules of the code and not these rows: a test that stored them in its transaction would
//! keep other tests waiting.

use diesel::QueryResult;
use diesel::data_types::PgInterval;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Interval, Json, Nullable, SmallInt, Text};
use diesel_jobs_core::DiscardRule;

use super::enqueue::delay;
use super::enqueue_unique::stored;
use crate::pg::native::{RawJson, native_query, sql};

#[derive(Default)]
pub(crate) struct DeclareDiscardRulesQuery<'a> {
    kinds: Vec<&'a str>,
    enqueues: Vec<&'a str>,
    queues: Vec<&'a str>,
    priorities: Vec<i16>,
    max_attempts: Vec<i16>,
    args: Vec<RawJson>,
    arguments: Vec<&'a str>,
    rules: Vec<Option<RawJson>>,
    expires: Vec<Option<PgInterval>>,
}

impl<'a> DeclareDiscardRulesQuery<'a> {
    pub(crate) fn new(rules: &'a [DiscardRule]) -> Self {
        let mut query = Self::default();
        for rule in rules {
            query.kinds.push(&rule.kind);
            query.enqueues.push(&rule.enqueues);
            query.queues.push(&rule.queue);
            query.priorities.push(rule.priority);
            query.max_attempts.push(rule.max_attempts.cast_signed());
            query.args.push(RawJson(rule.args.as_bytes().to_vec()));
            query.arguments.push(&rule.argument);
            query.rules.push(stored(&rule.rules));
            query.expires.push(rule.expires.map(delay));
        }
        query
    }
}

const COLUMNS: &str = "kind, enqueues, queue, priority, max_attempts, args, argument, rules, expires";

impl QueryFragment<Pg> for DeclareDiscardRulesQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.on_discarded (" COLUMNS ")
        select " COLUMNS " from unnest(" [self.kinds => Array<Text>] ", " [self.enqueues => Array<Text>] ", " [self.queues => Array<Text>] ", "
        [self.priorities => Array<SmallInt>] ", " [self.max_attempts => Array<SmallInt>] ", " [self.args => Array<Json>] ", "
        [self.arguments => Array<Text>] ", " [self.rules => Array<Nullable<Json>>] ", " [self.expires => Array<Nullable<Interval>>] ") as declared (" COLUMNS ")
where not exists (
    select from jobs.on_discarded stored
    where (stored.kind, stored.enqueues, stored.queue, stored.priority, stored.max_attempts, stored.args::text, stored.argument)
        = (declared.kind, declared.enqueues, declared.queue, declared.priority, declared.max_attempts, declared.args::text, declared.argument)
      and (stored.rules::text, stored.expires) is not distinct from (declared.rules::text, declared.expires)
)
order by kind
on conflict (kind) do update set (" COLUMNS ")
    = (excluded.kind, excluded.enqueues, excluded.queue, excluded.priority, excluded.max_attempts, excluded.args, excluded.argument,
       excluded.rules, excluded.expires)"
        )
    }
}

native_query!(DeclareDiscardRulesQuery<'a> -> ());
