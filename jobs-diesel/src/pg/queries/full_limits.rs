//! `end_full`: finds jobs whose limit is full and that do not wait (`on_full`), in one snapshot (`jobs.full_jobs`).
//! [`end_waiting`](super::end_waiting) then ends each job by its id. So a job that admission has started meanwhile is
//! not discarded.

use std::collections::BTreeMap;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::MOST_ENDED;
use diesel_jobs_core::{JobState, OnFull, Retention};

use super::end_waiting::Ending;
use crate::pg::native::{self, native_query, sql};

/// The jobs to end, with the name of their limit and the rule.
struct FullQuery {
    limit: i32,
}

impl FullQuery {
    fn new() -> Self {
        Self { limit: i32::try_from(MOST_ENDED).unwrap_or(i32::MAX) }
    }
}

impl QueryFragment<Pg> for FullQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "select job_id, name, rule from jobs.full_jobs(" [self.limit => Integer] ")")
    }
}

native_query!(FullQuery -> (BigInt, Text, Text));

/// What is to end now. All jobs of one limit with one rule end for the same reason.
pub(crate) async fn find(conn: &mut AsyncPgConnection, retention: Retention) -> QueryResult<Vec<Ending>> {
    let found: Vec<(i64, String, String)> = FullQuery::new().load(conn).await?;
    let mut groups: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
    for (id, limit, rule) in found {
        groups.entry((rule, limit)).or_default().push(id);
    }
    let of_group = |((rule, limit), ids): ((String, String), Vec<i64>)| {
        let rule = OnFull::parse(&rule);
        let (state, keep) = match rule {
            OnFull::Discard => (JobState::Discarded, retention.discarded),
            _ => (JobState::Cancelled, retention.cancelled),
        };
        Some(Ending::full(ids, state, rule.failure(&limit)?, native::seconds(keep)))
    };
    Ok(groups.into_iter().filter_map(of_group).collect())
}
