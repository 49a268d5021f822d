//! `poll`: the [`next_due`](super::next_due) of an idle worker, with what else there is to do. So an idle worker sends
//! one statement instead of five: its rescuer, its admitter and its steps of operations need not look for themselves.
//!
//! The settings are read as one number, so that a worker that no notification reaches follows them, too. The texts from
//! which it is made do not depend on settings of the session. The columns of schedules are those whose changes are
//! notified.
//!
//! It also says whether the server is a standby. An idle worker only reads, which a primary that was demoted allows.
//!
//! It locks nothing. Beside `next_due`, it reads the few rows of `jobs.worker` and of quarantined jobs, at most one
//! entry of the index `operation_open` and of the table `jobs.nudge`, two of each of the indexes `held_later`,
//! `rate_next` and `expiry_time`: the first of all, and the first that is not due yet. An entry may stay due, because
//! its row is locked or its queue is paused, and must not hide the later ones.
//!
//! Every second poll also looks for jobs that have been due for a while, of whatever queue and kind: this worker does
//! not run them, and perhaps nobody does. That reads one entry of the index `ready_claim` for each level, which is one
//! entry altogether where no job waits.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::health_checks::UNNOTICED;
use diesel_jobs_core::storage::{Claim, Upkeep};

use super::next_due::{NextDueQuery, NextDueRow};
use super::scan::NOT_PAUSED;
use crate::flags::FlagsKnown;
use crate::pg::levels::Plan;
use crate::pg::native::{native_query, sql};

/// The condition that the search for overdue jobs meets few deleted ones. Where the server does not count them, nothing
/// is searched for.
const FEW_DEAD_ROWS: &str =
    "current_setting('track_counts')::boolean and pg_stat_get_dead_tuples('jobs.ready'::regclass) < 10000";

/// The first job of each level that has been due for longer than it may go unnoticed, in queues that are not paused.
struct Overdue;

impl QueryFragment<Pg> for Overdue {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "
        with recursive wanted (queue) as (
            (select r.queue from jobs.ready r order by r.queue limit 1)
            union all
            select (select r.queue from jobs.ready r where r.queue > wanted.queue order by r.queue limit 1) from wanted where wanted.queue is not null
        )
        select from wanted cross join lateral (
            with recursive level (priority, run_at) as (
                (select r.priority, r.run_at from jobs.ready r where r.queue = wanted.queue order by r.priority desc, r.run_at limit 1)
                union all
                select lower.priority, lower.run_at from level cross join lateral (
                    select r.priority, r.run_at from jobs.ready r where r.queue = wanted.queue and r.priority < level.priority
                    order by r.priority desc, r.run_at limit 1
                ) lower
            )
            select from level where level.run_at < now() - make_interval(secs => " [UNNOTICED => Double] ") limit 1
        ) overdue
        where " NOT_PAUSED "
    "
        )
    }
}

pub(crate) struct PollQuery<'a> {
    next_due: NextDueQuery<'a>,
    quarantined_at: i32,
    looks_for_overdue: bool,
}

impl<'a> PollQuery<'a> {
    pub(crate) fn new(claim: &'a Claim, plan: &Plan, within: Duration) -> Self {
        let next_due = NextDueQuery::new(claim, plan, within);
        Self { next_due, quarantined_at: claim.quarantined_at.into(), looks_for_overdue: false }
    }

    /// Also looks for jobs of any queue and kind that have been due for a while.
    pub(crate) fn looking_for_overdue(self, looks: bool) -> Self {
        Self { looks_for_overdue: looks, ..self }
    }
}

impl QueryFragment<Pg> for PollQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            {self.next_due} ",
    exists (select from jobs.worker where heartbeat_at < now() - lease)
        or exists (select from jobs.ready waiting where waiting.crashes > 0 and waiting.crashes >= " [self.quarantined_at => Integer] "
                   and waiting.run_at <= now() and " {FlagsKnown("waiting")} "),
    exists (select from jobs.nudge) or coalesce(now() >= least(
        (select run_at from jobs.held where later order by run_at limit 1),
        (select next_at from jobs.rate where next_at is not null order by next_at limit 1),
        (select start_by from jobs.expiry order by start_by limit 1)
    ), false),
    extract(epoch from least(
        (select run_at from jobs.held where later and run_at > now() order by run_at limit 1),
        (select next_at from jobs.rate where next_at > now() order by next_at limit 1),
        (select start_by from jobs.expiry where start_by > now() order by start_by limit 1),
        (select min(run_at) from jobs.ready waiting where waiting.crashes > 0 and waiting.crashes >= " [self.quarantined_at => Integer] "
                   and waiting.run_at > now() and " {FlagsKnown("waiting")} ")
    ) - clock_timestamp())::float8,
    exists (select from jobs.operation where finished_at is null),
    case when " [self.looks_for_overdue => Bool] " and " FEW_DEAD_ROWS " then exists (" {Overdue} ") else false end,
    (select bit_xor(hashtextextended(setting, seed)) from (
        select 1, (name, paused, slots)::text from jobs.queue
        union all select 2, (name, paused)::text from jobs.kind
        union all select 3, (name, most)::text from jobs.limit_setting
        union all select 4, (kind, state, extract(epoch from keep))::text from jobs.retention
        union all select 5, (kind, enqueues, queue, priority, max_attempts, args, argument, rules, extract(epoch from expires))::text from jobs.on_discarded
        union all select 6, (environment, extract(epoch from frozen_at))::text from jobs.installation
        union all select 7, (name, kind, expression, timezone, catch_up, paused, args, queue, priority, max_attempts)::text from jobs.schedule
    ) settings (seed, setting)),
    pg_is_in_recovery()"
        )
    }
}

native_query!(PollQuery<'a> -> (Nullable<Double>, Timestamptz, Array<Text>, Bool, Bool, Nullable<Double>, Bool, Bool, Nullable<BigInt>, Bool));

#[derive(Queryable)]
pub(crate) struct PollRow {
    seconds: Option<f64>,
    clock: DateTime<Utc>,
    paused: Vec<String>,
    rescue: bool,
    sweep: bool,
    next: Option<f64>,
    operation: bool,
    overdue: bool,
    settings: Option<i64>,
    standby: bool,
}

impl PollRow {
    /// The same row, unless a standby has answered and the URL means a primary. Then the error with which the server
    /// refuses a write.
    pub(crate) fn of_primary(self, is_meant: bool) -> QueryResult<Self> {
        if self.standby && is_meant {
            let said = "a standby has answered the poll".to_owned();
            return Err(Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, Box::new(said)));
        }
        Ok(self)
    }

    /// The answer of `next_due`, and the rest.
    pub(crate) fn parts(self) -> (NextDueRow, Upkeep) {
        let Self { seconds, clock, paused, rescue, sweep, next, operation, overdue, settings, .. } = self;
        let next = next.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let upkeep = Upkeep { rescue, sweep, next, overdue, operation, settings: settings.unwrap_or_default() };
        (NextDueRow { seconds, clock, paused }, upkeep)
    }
}
