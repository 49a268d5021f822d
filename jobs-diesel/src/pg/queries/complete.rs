//! `complete`: `finish` for batches whose jobs all completed alike, as those of a healthy flood do. It carries one column
//! where `finish` carries eight, and asks nothing about other ends: a third less work for the server.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Nullable, Uuid as SqlUuid};
use jobs_core::{Finish, Keep, Transition, WorkerId};

use crate::pg::native::{native_query, seconds, sql};

pub(crate) struct CompleteQuery {
    ids: Vec<i64>,
    worker: WorkerId,
    /// The lease's number: 1 unless something went wrong before.
    number: i32,
    /// Seconds from now until the rows may be pruned; null for ever.
    keep: Option<f64>,
}

impl CompleteQuery {
    /// `None`: this batch needs `finish`. Sorted by id, as there.
    pub(crate) fn new(batch: &[Finish]) -> Option<Self> {
        let first = batch.first()?;
        let keep = match first.transition {
            Transition::Complete(Keep::For(time)) => Some(seconds(time)),
            Transition::Complete(Keep::Forever) => None,
            _ => return None,
        };
        let (worker, number) = (first.lease.worker, first.lease.number);
        let alike = |Finish { lease, transition }: &Finish| {
            (lease.worker, lease.number) == (worker, number) && *transition == first.transition
        };
        if !batch.iter().all(alike) {
            return None;
        }
        let mut ids: Vec<_> = batch.iter().map(|finish| finish.lease.job.0).collect();
        ids.sort_unstable();
        Some(Self { ids, worker, number, keep })
    }
}

impl QueryFragment<Pg> for CompleteQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with moved as (
    delete from jobs.running r
    where r.id = any(" [self.ids => Array<BigInt>] ") and r.lease = " [self.number => Integer] " and r.worker = " [self.worker.0 => SqlUuid] "
    returning r.*
), ended as (
    insert into jobs.finished (id, run_at, enqueued_at, claimed_at, expires_at, lease, state, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args)
    select id, run_at, enqueued_at, claimed_at, now() + make_interval(secs => " [self.keep => Nullable<Double>] "), lease, 1, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args
    from moved
    returning id
)
select coalesce(array_agg(id), '{}') from ended"
        )
    }
}

native_query!(CompleteQuery -> Array<BigInt>);
