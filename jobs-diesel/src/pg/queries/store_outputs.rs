//! `store_outputs`: stores what handlers returned, before the finish of their jobs. It runs only for batches with
//! outputs.
//!
//! It stores nothing for a job whose lease is lost. A row counts only if its job is completed under the same lease
//! number. So nothing is wrong if the process dies between this statement and the finish: the row of the next attempt
//! replaces it. An attempt that lost its lease does not replace the row of a later one.
//!
//! It takes no lock on `running`, because the finish checks the lease again. Rows of `jobs.output` are written in the
//! order of their ids, so two batches cannot deadlock. It can wait only for a transaction that has stored the output of
//! the same job and has not ended.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Json, Nullable, Text, Uuid as SqlUuid};
use diesel_jobs_core::{Finish, Lease, Output};
use uuid::Uuid;

use crate::pg::native::{RawJson, native_query, sql};

/// A statement is not larger than this, plus one output. The time limit of a statement would not suffice for 500 large
/// outputs.
const BYTES: usize = 4 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct StoreOutputsQuery<'a> {
    ids: Vec<i64>,
    leases: Vec<i32>,
    workers: Vec<Uuid>,
    values: Vec<Option<RawJson>>,
    notes: Vec<Option<&'a str>>,
    bytes: usize,
}

impl<'a> StoreOutputsQuery<'a> {
    /// The statements for the outputs of a batch. None if there is no output.
    pub(crate) fn for_batch(batch: &'a [Finish]) -> Vec<Self> {
        let mut with_output: Vec<(Lease, &Output)> =
            batch.iter().filter_map(|finish| Some((finish.lease, finish.transition.output()?))).collect();
        with_output.sort_unstable_by_key(|(lease, _)| lease.job);
        let mut queries: Vec<Self> = Vec::new();
        for (lease, output) in with_output {
            match queries.last_mut() {
                Some(query) if query.bytes < BYTES => query.push(lease, output),
                _ => {
                    let mut query = Self::default();
                    query.push(lease, output);
                    queries.push(query);
                }
            }
        }
        queries
    }

    fn push(&mut self, lease: Lease, output: &'a Output) {
        self.ids.push(lease.job.0);
        self.leases.push(lease.number);
        self.workers.push(lease.worker.0);
        self.bytes += output.json().map_or(0, str::len);
        self.values.push(output.json().map(|json| RawJson(json.as_bytes().to_vec())));
        self.notes.push(output.note());
    }
}

impl QueryFragment<Pg> for StoreOutputsQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
                out,
                "insert into jobs.output as stored (job_id, lease, value, note)
select f.id, f.lease, f.value, f.note
from unnest(" [self.ids => Array<BigInt>] ", " [self.leases => Array<Integer>] ", " [self.workers => Array<SqlUuid>] ", "
        [self.values => Array<Nullable<Json>>] ", " [self.notes => Array<Nullable<Text>>] ") as f (id, lease, worker, value, note)
cross join lateral (
    select from jobs.running r where r.id = f.id and r.lease = f.lease and r.worker = f.worker offset 0
) held
on conflict (job_id) do update set lease = excluded.lease, value = excluded.value, note = excluded.note
where stored.lease <= excluded.lease"
            )
    }
}

native_query!(StoreOutputsQuery<'a> -> ());
