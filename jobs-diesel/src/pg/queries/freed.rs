//! The parts of the statements that move jobs with a limit away from `jobs.ready` and `jobs.running`. They delete the slots of the
//! jobs and nudge their keys, in the same statement. They nudge also if no slot was found, and if no job is held: a job may become
//! held at the same time, in a transaction that this snapshot does not see.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};

/// The common table expressions `freed` and `nudged`. It reads the jobs that leave from another one, which has the columns `id` and
/// `flow`.
pub(super) struct Freed {
    /// The name of that common table expression.
    pub(super) from: &'static str,
    /// The condition for the rows that leave.
    pub(super) when: &'static str,
}

impl QueryFragment<Pg> for Freed {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self { from, when } = self;
        out.push_sql(&format!(
            "freed as (
    delete from jobs.slot where job_id = any(array(select id from {from} where flow is not null and {when}))
), nudged as (
    insert into jobs.nudge (limit_name, limit_key) select distinct flow ->> 'limit', flow ->> 'key' from {from} where flow is not null and {when}
)"
        ));
        Ok(())
    }
}
