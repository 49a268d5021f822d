//! `store_progress` and `progress`: what handlers have reported about their jobs. A report is stored while its lease is
//! the newest lease of the job, even if the job has ended. So an attempt never replaces the report of a later attempt.
//!
//! The reports are columns of `jobs.output`, because they are deleted with their job in the same ways as outputs. A
//! report does not change the lease number of the row. Otherwise an earlier output would count as that of a later
//! attempt.
//!
//! It waits for rows that another session has locked. That can only be the end of a transactional handler of the same
//! job.

use diesel::dsl::auto_type;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Text};
use diesel_jobs_core::{JobId, ProgressReport};

use crate::pg::native::{native_query, sql};
use crate::pg::schema::job;
use crate::stored_progress::number;

#[derive(Default)]
pub(crate) struct StoreProgressQuery<'a> {
    ids: Vec<i64>,
    leases: Vec<i32>,
    done: Vec<i64>,
    totals: Vec<i64>,
    messages: Vec<&'a str>,
}

impl<'a> StoreProgressQuery<'a> {
    /// Sorts the reports by the id of their job, because statements that lock rows in the same order cannot deadlock.
    pub(crate) fn new(reports: &'a [ProgressReport]) -> Self {
        let mut sorted: Vec<&ProgressReport> = reports.iter().collect();
        sorted.sort_unstable_by_key(|report| report.lease.job);
        let mut query = Self::default();
        for ProgressReport { lease, done, total, message } in sorted {
            query.ids.push(lease.job.0);
            query.leases.push(lease.number);
            query.done.push(number(*done));
            query.totals.push(number(*total));
            query.messages.push(message);
        }
        query
    }
}

impl QueryFragment<Pg> for StoreProgressQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.output (job_id, lease, progress_done, progress_total, progress_message, progress_at)
select f.id, f.lease, f.done, f.total, f.message, clock_timestamp()
from unnest(" [self.ids => Array<BigInt>] ", " [self.leases => Array<Integer>] ", " [self.done => Array<BigInt>] ", "
        [self.totals => Array<BigInt>] ", " [self.messages => Array<Text>] ") as f (id, lease, done, total, message)
where exists (select from jobs.running j where j.id = f.id and j.lease = f.lease offset 0)
   or exists (select from jobs.held j where j.id = f.id and j.lease = f.lease offset 0)
   or exists (select from jobs.ready j where j.id = f.id and j.lease = f.lease offset 0)
   or exists (select from jobs.finished j where j.id = f.id and j.lease = f.lease offset 0)
on conflict (job_id) do update set progress_done = excluded.progress_done, progress_total = excluded.progress_total,
    progress_message = excluded.progress_message, progress_at = excluded.progress_at"
        )
    }
}

native_query!(StoreProgressQuery<'a> -> ());

/// The query for the stored progress. The row has the type `stored_progress::Columns`.
#[auto_type(no_type_alias)]
pub(crate) fn one_progress(id: JobId) -> _ {
    let id: i64 = id.0;
    let columns = (job::progress_done, job::progress_total, job::progress_message, job::progress_at);
    job::table.filter(job::id.eq(id)).select(columns)
}
