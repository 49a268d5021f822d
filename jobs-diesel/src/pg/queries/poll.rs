//! `poll`: the [`next_due`](super::next_due) of an idle worker, with what else there is to do. So an idle worker sends
//! one statement instead of five: its rescuer, its admitter and its steps of operations need not look for themselves.
//!
//! The settings are read as one number, so that a worker that no notification reaches follows them, too. The texts from
//! which it is made do not depend on settings of the session. The columns of schedules are those whose changes are
//! notified.
//!
//! It locks nothing. Beside `next_due`, it reads the few rows of `jobs.worker` and of quarantined jobs, at most one
//! entry of the index `operation_open` and of the table `jobs.nudge`, two of each of the indexes `held_later`,
//! `rate_next` and `expiry_time`: the first of all, and the first that is not due yet. An entry may stay due, because
//! its row is locked or its queue is paused, and must not hide the later ones.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::{Claim, Upkeep};

use super::next_due::{NextDueQuery, NextDueRow};
use crate::flags::FlagsKnown;
use crate::pg::levels::Plan;
use crate::pg::native::{native_query, sql};

pub(crate) struct PollQuery<'a> {
    next_due: NextDueQuery<'a>,
    quarantined_at: i32,
}

impl<'a> PollQuery<'a> {
    pub(crate) fn new(claim: &'a Claim, plan: &Plan, within: Duration) -> Self {
        Self { next_due: NextDueQuery::new(claim, plan, within), quarantined_at: claim.quarantined_at.into() }
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
    (select bit_xor(hashtextextended(setting, seed)) from (
        select 1, (name, paused, slots)::text from jobs.queue
        union all select 2, (name, paused)::text from jobs.kind
        union all select 3, (name, most)::text from jobs.limit_setting
        union all select 4, (kind, state, extract(epoch from keep))::text from jobs.retention
        union all select 5, (kind, enqueues, queue, priority, max_attempts, args, argument, rules, extract(epoch from expires))::text from jobs.on_discarded
        union all select 6, (environment, extract(epoch from frozen_at))::text from jobs.installation
        union all select 7, (name, kind, expression, timezone, catch_up, paused, args, queue, priority, max_attempts)::text from jobs.schedule
    ) settings (seed, setting))"
        )
    }
}

native_query!(PollQuery<'a> -> (Nullable<Double>, Timestamptz, Array<Text>, Bool, Bool, Nullable<Double>, Bool, Nullable<BigInt>));

#[derive(Queryable)]
pub(crate) struct PollRow {
    seconds: Option<f64>,
    clock: DateTime<Utc>,
    paused: Vec<String>,
    rescue: bool,
    sweep: bool,
    next: Option<f64>,
    operation: bool,
    settings: Option<i64>,
}

impl PollRow {
    /// The answer of `next_due`, and the rest.
    pub(crate) fn parts(self) -> (NextDueRow, Upkeep) {
        let Self { seconds, clock, paused, rescue, sweep, next, operation, settings } = self;
        let next = next.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let upkeep = Upkeep { rescue, sweep, next, operation, settings: settings.unwrap_or_default() };
        (NextDueRow { seconds, clock, paused }, upkeep)
    }
}
