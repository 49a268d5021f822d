//! `delete`: `finish` for batches whose jobs all completed in the same way and are not kept. In batches of 500,
//! the server spends 1.8 µs per job on it, 5.9 µs on `complete` and 6.3 µs on `finish`. A plain delete takes 1.6 µs.
//!
//! It also deletes the rows of these jobs in other tables. It does not search those tables for a job that has no rows
//! there. If a job's own `args` is null, its large arguments are in `jobs.payload`. A job has no failures during its
//! first lease. A failure is recorded when a lease ends, or by a `cancel`. After a `cancel`, only `retry` makes the job
//! available again, and `retry` counts a lease for it.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Uuid as SqlUuid};
use diesel_jobs_core::{Finish, Keep};

use super::complete::Alike;
use crate::pg::native::{native_query, sql};

pub(crate) struct DeleteQuery(Alike);

impl DeleteQuery {
    /// Returns `None` if this batch needs another statement.
    pub(crate) fn new(batch: &[Finish]) -> Option<Self> {
        Alike::new(batch).filter(|alike| alike.keep == Keep::Nothing).map(Self)
    }
}

impl QueryFragment<Pg> for DeleteQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with moved as (
    delete from jobs.running r
    where r.id = any(" [self.0.ids => Array<BigInt>] ") and r.lease = " [self.0.number => Integer] " and r.worker = " [self.0.worker.0 => SqlUuid] " and r.xmax = 0
    returning r.id, r.args is null as large
), emptied as (
    delete from jobs.payload where job_id = any(array(select id from moved where large))
), forgotten as (
    delete from jobs.job_error where job_id = any(array(select id from moved where " [self.0.number => Integer] " > 1))
)
select coalesce(array_agg(id), '{}') from moved"
        )
    }
}

native_query!(DeleteQuery -> Array<BigInt>);
