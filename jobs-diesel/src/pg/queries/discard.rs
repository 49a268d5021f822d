//! `discard`: ends waiting jobs as discarded. What `on_discarded` says about their kinds is enqueued in the same
//! statement.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Nullable, Text};
use diesel_jobs_core::storage::{Action, DISCARDED, cancel_fingerprint};

use super::audited::{Actor, Audited};
use super::columns::{CARRIED, ERROR, FINISHED, READY};
use super::delete_held::{FROM_HELD, KNOWN, UNLOCKED};
use super::expiry::{BEGIN, END, OR_ELSE, SetByOperators};
use super::free_keys::FreeKeys;
use super::free_permits::FreePermits;
use super::on_discarded::FOLLOWED;
use super::wake::ADMISSION_WOKEN;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// A sequence halts if it was the turn of the discarded job.
const LEAVES: FreePermits = FreePermits { discarded: "true", ..FreePermits::ended("waiting") };

/// Ends waiting jobs by an operator.
pub(crate) struct DiscardQuery {
    ids: Vec<i64>,
    into_discarded: IntoDiscarded,
    audited: Audited,
}

impl DiscardQuery {
    pub(crate) fn new(ids: Vec<i64>, keep_seconds: f64, actor: Actor<'_>) -> Self {
        Self {
            ids,
            into_discarded: IntoDiscarded {
                keep_seconds,
                actor: actor.named(),
                fingerprint: cancel_fingerprint(DISCARDED),
                why: format!("discarded by {}", actor.name),
            },
            audited: Audited::new("ended", &Action::Discard, actor),
        }
    }
}

impl QueryFragment<Pg> for DiscardQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with available as (
    delete from jobs.ready where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.ready where id = wanted.id and " {FlagsKnown("ready")} " for update skip locked
        ) found
    ))
    returning " READY ", " CARRIED "
), held as (
    " FROM_HELD [self.ids => Array<BigInt>] KNOWN {FlagsKnown("held")} UNLOCKED "
    returning " READY ", " CARRIED "
), waiting as (
    select * from available union all select * from held
" {self.into_discarded} {self.audited} ", woken as (
    select " ADMISSION_WOKEN " where exists (select from waiting where rules is not null)
)
select id from ended where (select count(*) from followed) + (select count(*) from woken) >= 0"
        )
    }
}

native_query!(DiscardQuery -> BigInt);

/// The part after the deletes of `waiting`. It inserts the finished rows (`ended`), the reason, and what `on_discarded`
/// says. The statement must read `followed`.
pub(super) struct IntoDiscarded {
    pub(super) keep_seconds: f64,
    /// Who has discarded them.
    pub(super) actor: Option<String>,
    pub(super) fingerprint: i64,
    pub(super) why: String,
}

impl QueryFragment<Pg> for IntoDiscarded {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "), " {LEAVES} ", " {FreeKeys { from: "waiting", when: "true" }} ", ended as (
    insert into jobs.finished (" FINISHED ", " CARRIED ")
    select id, run_at, null::timestamptz, " BEGIN {SetByOperators("3", "waiting")} OR_ELSE [self.keep_seconds => Double] END ", lease, 3, attempt, max_attempts,
           crashes, null::uuid, " CARRIED "
    from waiting
    returning id, kind, queue, attempt, max_attempts
), recorded as (
    insert into jobs.job_error (" ERROR ", actor)
    select id, attempt, null::timestamptz, null::uuid, 'cancelled', " [self.why => Text] ", " [self.fingerprint => BigInt] ",
           " [self.actor => Nullable<Text>] " from ended
), gone as (
    select id, kind, queue, attempt, max_attempts, 'cancelled' as failure_kind, " [self.why => Text] "::text as message from ended
), " FOLLOWED
        )
    }
}
