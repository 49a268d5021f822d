//! `retry` and `cancel`: the commands of operators. Like the operations of a worker, each is one statement that moves
//! its rows. It returns their ids.
//!
//! Waiting jobs that another session has locked are passed over, and the caller tries again (`pg/operator.rs`). For
//! running and ended jobs it waits, because an operator asks for just these jobs.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Nullable, Text};
use diesel_jobs_core::Failure;
use diesel_jobs_core::storage::{Action, CANCELLED, cancel_fingerprint};

use super::audited::{Actor, Audited};
use super::columns::{CARRIED, CARRIED_ANEW, ERROR, FINISHED, HELD, HELD_VALUES, PLACE, READY};
use super::delete_held::{FROM_HELD, KNOWN, UNLOCKED};
use super::expiry::{BEGIN, END, OR_ELSE, SetByOperators};
use super::free_keys::FreeKeys;
use super::free_permits::FreePermits;
use super::wake::{A_WORKER_IS_IDLE, ADMISSION_WOKEN};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// A retried job waits for its limit again. In a sequence it keeps its turn.
const RETRIED: FreePermits = FreePermits { wait_again: "true", ..FreePermits::ended("limited") };

const CANCELLED_JOBS: FreePermits = FreePermits::ended("ended");

/// Makes cancelled, discarded and waiting jobs available now. Their crashes become 0, because an operator has examined
/// them. An ended job does not expire any more. Their lease number becomes at least 1, because they may have failures:
/// see `delete`.
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
            "with ended as (
    delete from jobs.finished where id = any(" [self.ids => Array<BigInt>] ") and state in (2, 3) and " {FlagsKnown("finished")} "
    returning id, lease, attempt, max_attempts, " CARRIED_ANEW "
), waiting as (
    delete from jobs.ready where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.ready where id = wanted.id and " {FlagsKnown("ready")} " for update skip locked
        ) found
    ))
    returning id, lease, attempt, max_attempts, " CARRIED "
), held as (
    " FROM_HELD [self.ids => Array<BigInt>] KNOWN {FlagsKnown("held")} UNLOCKED "
    returning id, lease, attempt, max_attempts, " CARRIED "
), limited as (
    select * from ended where rules is not null union all select * from held
), available as (
    insert into jobs.ready (id, lease, attempt, max_attempts, " CARRIED ")
    select id, greatest(lease, 1), least(attempt, 32766), greatest(max_attempts, least(attempt + 1, 32767)), " CARRIED "
    from (select * from ended where rules is null union all select * from waiting) job
    returning id, queue
), held_again as (
    insert into jobs.held (id, lease, attempt, max_attempts, " CARRIED ", " HELD ")
    select id, greatest(lease, 1), least(attempt, 32766), greatest(max_attempts, least(attempt + 1, 32767)), " CARRIED ", false, " HELD_VALUES "
    from limited " PLACE "
    returning id
), returned as (
    select id from available union all select id from held_again
), " {RETRIED} ", woken as (
    select jobs.notify_workers(queue) from (select distinct queue from available) available where " A_WORKER_IS_IDLE "
    union all select " ADMISSION_WOKEN " where exists (select from limited)
)" {self.audited} "
select id from returned where (select count(*) from woken) >= 0"
        )
    }
}

native_query!(RetryQuery -> BigInt);

/// Cancels waiting and running jobs. The lease of a running attempt is then lost.
pub(crate) struct CancelQuery {
    ids: Vec<i64>,
    into_cancelled: IntoCancelled,
    audited: Audited,
}

impl CancelQuery {
    pub(crate) fn new(ids: Vec<i64>, keep_seconds: f64, actor: Actor<'_>) -> Self {
        let why = format!("cancelled by {}", actor.name);
        Self {
            ids,
            into_cancelled: IntoCancelled::new(keep_seconds, why, actor.named()),
            audited: Audited::new("ended", &Action::Cancel, actor),
        }
    }
}

impl QueryFragment<Pg> for CancelQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.ready where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.ready where id = wanted.id and " {FlagsKnown("ready")} " for update skip locked
        ) found
    ))
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), held as (
    " FROM_HELD [self.ids => Array<BigInt>] KNOWN {FlagsKnown("held")} UNLOCKED "
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), running as (
    delete from jobs.running where id = any(" [self.ids => Array<BigInt>] ") and " {FlagsKnown("running")} "
    returning " READY ", claimed_at, worker, " CARRIED "
" {self.into_cancelled} {self.audited} "
select id from ended"
        )
    }
}

native_query!(CancelQuery -> BigInt);

/// The part after the deletes of `waiting` and `running` by an operator. It inserts the finished rows (`ended`) and the
/// reason.
pub(super) struct IntoCancelled {
    keep_seconds: f64,
    why: String,
    /// Who has cancelled them.
    actor: Option<String>,
    fingerprint: i64,
}

impl IntoCancelled {
    /// For this reason, which is the same for all jobs.
    pub(super) fn because_of(reason: &Failure, keep_seconds: f64) -> Self {
        Self { keep_seconds, why: reason.message.clone(), actor: None, fingerprint: reason.fingerprint }
    }

    pub(super) fn new(keep_seconds: f64, why: String, actor: Option<String>) -> Self {
        Self { keep_seconds, why, actor, fingerprint: cancel_fingerprint(CANCELLED) }
    }
}

impl QueryFragment<Pg> for IntoCancelled {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "), ended as (
    insert into jobs.finished (" FINISHED ", " CARRIED ")
    select id, run_at, claimed_at, " BEGIN {SetByOperators("2", "job")} OR_ELSE [self.keep_seconds => Double] END ", lease, 2, attempt, max_attempts, crashes, worker, " CARRIED "
    from (select * from waiting union all select * from held union all select * from running) job
    returning id, attempt, claimed_at, worker, flags, rules
), recorded as (
    insert into jobs.job_error (" ERROR ", actor)
    select id, attempt, claimed_at, worker, 'cancelled', " [self.why => Text] ", " [self.fingerprint => BigInt] ", " [self.actor => Nullable<Text>] "
    from ended
), " {CANCELLED_JOBS} ", " {FreeKeys { from: "ended", when: "true" }}
        )
    }
}
