//! `prune`: deletes finished jobs whose retention is over, with their failures, payloads and outputs, at most
//! `limit`. While the database is frozen it deletes none, because operators may want to see them.
//!
//! It also deletes outputs whose job no longer exists (`forgotten`). Such outputs remain if an older program prunes the
//! job, if the row is set apart, or if a person deletes it. The statement reads the next outputs in the order of their
//! ids, so that its cost does not depend on their number. It does not delete the output of a waiting job. A worker may
//! claim this job at the same time and replace the output, and the new output would be deleted.
//!
//! It uses `finished_expiry` for the jobs, and primary keys and `ready_id` for the outputs. Without `offset 0` the
//! planner would make joins of the three conditions, and read all of `ready_claim` if it takes `ready` for empty. With
//! 1,000,000 ended jobs, 300,000 waiting ones and 100,000 outputs, `forgotten` takes 10 ms for 1000 outputs, under any
//! statistics. A statement of its own would take a round trip, even if there are no outputs.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Nullable};

use super::scan::NOT_FROZEN;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// Returns how many jobs it has deleted, and the last output that it has examined. Null: there was none after `after`.
pub(crate) struct PruneQuery {
    pub(crate) limit: i64,
    /// The last output that the previous call of this statement read.
    pub(crate) after: i64,
}

impl QueryFragment<Pg> for PruneQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with expired as (
    delete from jobs.finished where ctid = any(array(
        select ctid from jobs.finished where expires_at <= now() and " {FlagsKnown("finished")} "
          and " NOT_FROZEN " order by expires_at limit " [self.limit => BigInt] "
        for update skip locked
    ))
    returning id, args
), errors as (
    delete from jobs.job_error where job_id in (select id from expired)
), payloads as (
    delete from jobs.payload where job_id = any(array(select id from expired where args is null))
), outputs as (
    delete from jobs.output where job_id = any(array(select id from expired))
), seen as (
    select job_id from jobs.output where job_id > " [self.after => BigInt] " and " NOT_FROZEN " order by job_id limit " [self.limit => BigInt] "
), forgotten as (
    delete from jobs.output where job_id = any(array(
        select job_id from seen
        where not exists (select from jobs.finished where id = job_id offset 0)
          and not exists (select from jobs.running where id = job_id offset 0)
          and not exists (select from jobs.ready where id = job_id offset 0)
          and not exists (select from jobs.held where id = job_id offset 0)
    ))
)
select count(*), (select max(job_id) from seen) from expired"
        )
    }
}

native_query!(PruneQuery -> (BigInt, Nullable<BigInt>));
