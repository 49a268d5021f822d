//! The parts of the statements that move jobs with a limit away from `jobs.ready` and `jobs.running`. They delete the slots of the
//! jobs and nudge their keys, in the same statement. They nudge also if no slot was found, and if no job is held: a job may become
//! held at the same time, in a transaction that this snapshot does not see. A job of a sequence keeps its slot while it waits for its
//! next attempt, and also when it is discarded and its sequence then halts. A job with a rate has no slot, and its end brings no token: only its
//! next attempt waits for one.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};

/// The common table expressions `freed`, `halted` and `nudged`. It reads the jobs that leave from another one, which has the columns `id` and
/// `flow`.
pub(super) struct Freed {
    /// The name of that common table expression.
    pub(super) from: &'static str,
    /// The condition for the rows that leave.
    pub(super) when: &'static str,
    /// The condition for those of them that wait again: a sequence waits with them.
    pub(super) wait_again: &'static str,
    /// The condition for those of them that are discarded: a sequence may halt.
    pub(super) discarded: &'static str,
}

impl Freed {
    /// Jobs that end, and are not discarded.
    pub(super) const fn ended(from: &'static str) -> Self {
        Self { from, when: "true", wait_again: "false", discarded: "false" }
    }
}

impl QueryFragment<Pg> for Freed {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self { from, when, wait_again, discarded } = self;
        out.push_sql(&format!(
            "freed as (
    delete from jobs.slot where job_id = any(array(
        select id from {from} where flow is not null and {when}
          and case when {wait_again} then flow ->> 'sequence' is null when {discarded} then coalesce(flow ->> 'sequence', '') <> 'halt' else true end
    ))
), halted as (
    update jobs.slot set halted_at = clock_timestamp()
    where job_id = any(array(select id from {from} where flow is not null and {when} and {discarded} and flow ->> 'sequence' = 'halt'))
), nudged as (
    insert into jobs.nudge (limit_name, limit_key) select distinct flow ->> 'limit', flow ->> 'key' from {from} where flow is not null and {when} and (flow -> 'rate' is null or {wait_again})
)"
        ));
        Ok(())
    }
}
