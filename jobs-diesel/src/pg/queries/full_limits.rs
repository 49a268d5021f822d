//! `end_full`: ends jobs whose limit is full and that do not wait (`on_full`). `jobs.full_jobs` finds them in one
//! snapshot. Each job is then ended by its id, if it is still in the same state. So a job that admission has started
//! meanwhile is not discarded. Rows that another session has locked are passed over, and a later call finds them.

use std::collections::BTreeMap;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{EndedWaiting, MOST_ENDED};
use diesel_jobs_core::{Failure, JobState, OnFull, Retention};

use super::columns::{CARRIED, READY};
use super::discard::IntoDiscarded;
use crate::flags::FlagsKnown;
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

/// Ends what is found now. All jobs of one limit with one rule have the same reason.
pub(crate) async fn end_full(conn: &mut AsyncPgConnection, retention: Retention) -> QueryResult<Vec<EndedWaiting>> {
    let found: Vec<(i64, String, String)> = FullQuery::new().load(conn).await?;
    let mut groups: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
    for (id, limit, rule) in found {
        groups.entry((rule, limit)).or_default().push(id);
    }
    let mut ended = Vec::new();
    for ((rule, limit), ids) in groups {
        let rule = OnFull::parse(&rule);
        let Some(reason) = rule.failure(&limit) else { continue };
        let (state, jobs): (JobState, Vec<(String, String)>) = match rule {
            OnFull::Discard => {
                let query = DiscardFullQuery::new(ids, &reason, native::seconds(retention.discarded));
                (JobState::Discarded, query.load(conn).await?)
            }
            _ => {
                let query = CancelFullQuery { ids, reason, keep_seconds: native::seconds(retention.cancelled) };
                (JobState::Cancelled, query.load(conn).await?)
            }
        };
        ended.extend(jobs.into_iter().map(|(queue, kind)| EndedWaiting { queue, kind, state }));
    }
    Ok(ended)
}

/// Discards those of these jobs that still wait for their first attempt.
struct DiscardFullQuery {
    ids: Vec<i64>,
    into_discarded: IntoDiscarded,
}

impl DiscardFullQuery {
    fn new(ids: Vec<i64>, reason: &Failure, keep_seconds: f64) -> Self {
        let (why, fingerprint) = (reason.message.clone(), reason.fingerprint);
        Self { ids, into_discarded: IntoDiscarded { keep_seconds, actor: None, fingerprint, why } }
    }
}

impl QueryFragment<Pg> for DiscardFullQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.held where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.held where id = wanted.id and flags & 64 <> 0 and lease = 0 and not later and not paused and " {FlagsKnown("held")} "
            for update skip locked
        ) found
    ))
    returning " READY ", " CARRIED "
" {self.into_discarded} "
select queue, kind from ended where (select count(*) from followed) >= 0"
        )
    }
}

native_query!(DiscardFullQuery -> (Text, Text));

/// Cancels these jobs, waiting or running.
struct CancelFullQuery {
    ids: Vec<i64>,
    reason: Failure,
    keep_seconds: f64,
}

impl QueryFragment<Pg> for CancelFullQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select queue, kind from jobs.cancel_jobs(" [self.ids => Array<BigInt>] ", " [self.reason.message => Text] ", null,
        " [self.reason.fingerprint => BigInt] ", " [self.keep_seconds => Double] ", 64)"
        )
    }
}

native_query!(CancelFullQuery -> (Text, Text));
