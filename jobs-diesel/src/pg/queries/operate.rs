//! `retry`, `cancel` and `reschedule`: the commands of operators. Each is one statement, which calls the function that
//! moves the rows and writes the audit. It returns the ids of the jobs that were changed.
//!
//! Waiting jobs that another session has locked are passed over, and the caller tries again (`pg/operator.rs`). For
//! running and ended jobs it waits, because an operator asks for just these jobs.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::Action;

use super::audited::{Actor, Audited};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// Makes cancelled, discarded and waiting jobs available now.
pub(crate) struct RetryQuery {
    ids: Vec<i64>,
    audited: Audited,
}

impl RetryQuery {
    pub(crate) fn new(ids: Vec<i64>, actor: Actor<'_>) -> Self {
        Self { ids, audited: Audited::new("returned", &Action::Retry, actor) }
    }
}

impl QueryFragment<Pg> for RetryQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with returned as (
    select id from jobs.retry_jobs(" [self.ids => Array<BigInt>] ") id
)" {self.audited} "
select id from returned"
        )
    }
}

native_query!(RetryQuery -> BigInt);

/// Cancels waiting and running jobs. The lease of a running attempt is then lost.
pub(crate) struct CancelQuery {
    ids: Vec<i64>,
    why: String,
    actor: Option<String>,
    audited: Audited,
}

impl CancelQuery {
    pub(crate) fn new(ids: Vec<i64>, actor: Actor<'_>) -> Self {
        let why = format!("cancelled by {}", actor.name);
        Self { ids, why, actor: actor.named(), audited: Audited::new("ended", &Action::Cancel, actor) }
    }
}

impl QueryFragment<Pg> for CancelQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with ended as (
    select id from jobs.cancel_jobs(" [self.ids => Array<BigInt>] ", " [self.why => Text] ", " [self.actor => Nullable<Text>] ")
)" {self.audited} "
select id from ended"
        )
    }
}

native_query!(CancelQuery -> BigInt);

/// Sets the time of waiting jobs. It first locks the rows, so that the function does not wait for one. The function
/// looks for a job in both tables, and gives back the permit of one with rules that is not due any more.
pub(crate) struct RescheduleQuery {
    ids: Vec<i64>,
    at: DateTime<Utc>,
    audited: Audited,
}

impl RescheduleQuery {
    pub(crate) fn new(ids: Vec<i64>, at: DateTime<Utc>, actor: Actor<'_>) -> Self {
        Self { ids, at, audited: Audited::new("returned", &Action::Reschedule(at), actor) }
    }
}

impl QueryFragment<Pg> for RescheduleQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as materialized (
    select found.id from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
        select id from jobs.ready where id = wanted.id and " {FlagsKnown("ready")} " for update skip locked
    ) found
    union all select found.id from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
        select id from jobs.held where id = wanted.id and " {FlagsKnown("held")} " for update skip locked
    ) found
), returned as materialized (
    select id from waiting where jobs.replace_waiting(
        row('', '', id, false, null)::jobs.unique_key, '{\"run_at\": true}', null, greatest(" [self.at => Timestamptz] ", clock_timestamp()), null
    )
)" {self.audited} "
select id from returned"
        )
    }
}

native_query!(RescheduleQuery -> BigInt);
