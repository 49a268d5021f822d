//! `run_now`, `reprioritise`, `move`: change waiting jobs. Each row is deleted and inserted again, because no statement
//! updates the row of a job. A job that is due is due from now on: claims would find one with an earlier time only
//! after a rescan, see `scan`.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Nullable, SmallInt, Text};
use diesel_jobs_core::storage::Action;

use super::audited::{Actor, Audited};
use super::columns::{CARRIED, HELD, HELD_VALUES, PLACE, READY, UNCHANGED};
use super::delete_held::{FROM_HELD, KNOWN, UNLOCKED};
use super::wake::{A_WORKER_IS_IDLE, ADMISSION_WOKEN};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct ChangeQuery {
    ids: Vec<i64>,
    is_due_now: bool,
    priority: Option<i16>,
    queue: Option<String>,
    audited: Audited,
}

impl ChangeQuery {
    /// Other actions than these three change nothing here.
    pub(crate) fn new(ids: Vec<i64>, action: &Action, actor: Actor<'_>) -> Self {
        Self {
            ids,
            is_due_now: *action == Action::RunNow,
            priority: if let Action::Reprioritise(priority) = action { Some(*priority) } else { None },
            queue: if let Action::Move(queue) = action { Some(queue.clone()) } else { None },
            audited: Audited::new("returned", action, actor),
        }
    }
}

impl QueryFragment<Pg> for ChangeQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.ready where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.ready where id = wanted.id and " {FlagsKnown("ready")} " for update skip locked
        ) found
    ))
    returning " READY ", " CARRIED "
), held as (
    " FROM_HELD [self.ids => Array<BigInt>] KNOWN {FlagsKnown("held")} UNLOCKED "
    returning " READY ", " CARRIED "
), available as (
    insert into jobs.ready (" READY ", " CARRIED ")
    select id, case when " [self.is_due_now => Bool] " then clock_timestamp() else greatest(run_at, clock_timestamp()) end, lease,
           attempt, max_attempts, crashes, enqueued_at, flags, coalesce(" [self.priority => Nullable<SmallInt>] ", priority), kind,
           coalesce(" [self.queue => Nullable<Text>] ", queue), " UNCHANGED "
    from waiting
    returning id, queue
), held_again as (
    insert into jobs.held (" READY ", " CARRIED ", " HELD ")
    select id, case when " [self.is_due_now => Bool] " then least(run_at, clock_timestamp()) else run_at end, lease,
           attempt, max_attempts, crashes, enqueued_at, flags, coalesce(" [self.priority => Nullable<SmallInt>] ", priority), kind,
           coalesce(" [self.queue => Nullable<Text>] ", queue), " UNCHANGED ",
           not " [self.is_due_now => Bool] " and run_at > clock_timestamp(), " HELD_VALUES "
    from held " PLACE "
    returning id, limit_name, limit_key
), nudged as (
    insert into jobs.nudge (limit_name, limit_key) select distinct limit_name, limit_key from held_again
), returned as (
    select id from available union all select id from held_again
), woken as (
    select jobs.notify_workers(queue) from (select distinct queue from available) available where " A_WORKER_IS_IDLE "
    union all select " ADMISSION_WOKEN " where exists (select from held)
)" {self.audited} "
select id from returned where (select count(*) from woken) >= 0"
        )
    }
}

native_query!(ChangeQuery -> BigInt);
