//! `complete`: `finish` for batches whose jobs all completed in the same way. These are the usual batches while many
//! jobs run without failures. It sends one column where `finish` sends six or more, and has no parts for other transitions.
//! This saves a third of the server's work.
//!
//! It leaves out rows that any session has ever locked (`xmax`), because it would wait for a lock that is still held.
//! `finish` handles those rows. `for update skip locked` would do both at once, but it costs the server a tenth more
//! per job.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Nullable, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{Finish, Keep, Transition, WorkerId};

use super::columns::{CARRIED, FINISHED};
use super::released::Released;
use crate::pg::native::{native_query, seconds, sql};

/// Jobs that all completed in the same way.
pub(super) struct Alike {
    /// Sorted, as in `finish`.
    pub(super) ids: Vec<i64>,
    pub(super) worker: WorkerId,
    pub(super) number: i32,
    pub(super) keep: Keep,
}

impl Alike {
    /// Returns `None` if this batch needs `finish`.
    pub(super) fn new(batch: &[Finish]) -> Option<Self> {
        let first = batch.first()?;
        let Transition::Complete(keep) = first.transition else { return None };
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

pub(crate) struct CompleteQuery {
    ids: Vec<i64>,
    worker: WorkerId,
    /// The lease number. It is 1 at the first claim of a job.
    number: i32,
    /// Seconds from now until the rows may be pruned. Null: never.
    keep: Option<f64>,
}

impl CompleteQuery {
    /// Returns `None` if this batch needs another statement.
    pub(crate) fn new(batch: &[Finish]) -> Option<Self> {
        let Alike { ids, worker, number, keep } = Alike::new(batch)?;
        let keep = match keep {
            Keep::For(time) => Some(seconds(time)),
            Keep::Forever => None,
            Keep::Nothing => return None,
        };
        Some(Self { ids, worker, number, keep })
    }

    /// Moves the jobs out of `running`. Returns the ids of those whose lease stood and whose row was not locked.
    ///
    /// The statement returns only the number of moved rows, because a statement that returns all ids takes a tenth
    /// longer. If the number is smaller than the batch, a second statement reads the ids. If another session prunes or
    /// retries a job between the two statements, the job counts as refused. This costs a line in the log and a check by
    /// the reconciler.
    pub(super) async fn complete(self, conn: &mut AsyncPgConnection) -> QueryResult<Vec<i64>> {
        let moved = RunQueryDsl::execute(&self, conn).await?;
        self.ids_of(moved, conn).await
    }

    /// The same for jobs with a limit or a unique key.
    pub(super) async fn complete_limited(self, conn: &mut AsyncPgConnection) -> QueryResult<Vec<i64>> {
        let limited = CompleteLimitedQuery(self);
        let moved = RunQueryDsl::execute(&limited, conn).await?;
        limited.0.ids_of(moved, conn).await
    }

    async fn ids_of(self, moved: usize, conn: &mut AsyncPgConnection) -> QueryResult<Vec<i64>> {
        if moved == self.ids.len() {
            return Ok(self.ids);
        }
        if moved == 0 {
            return Ok(Vec::new());
        }
        let moved = i64::try_from(moved).unwrap_or(i64::MAX);
        RunQueryDsl::load(CompletedQuery(&self, moved), conn).await
    }

    fn walk<'b>(&'b self, gives_back: bool, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let moved: QueryResult<()> = sql!(
            out,
            "with moved as (
    delete from jobs.running r
    where r.id = any(" [self.ids => Array<BigInt>] ") and r.lease = " [self.number => Integer] " and r.worker = " [self.worker.0 => SqlUuid] " and r.xmax = 0
    returning r.*
)"
        );
        moved?;
        if gives_back {
            sql!(out, ", " GIVEN_BACK ", " {RELEASED})?;
        }
        sql!(
            out,
            "
insert into jobs.finished (" FINISHED ", " CARRIED ")
select id, run_at, claimed_at, now() + make_interval(secs => " [self.keep => Nullable<Double>] "), lease, 1, attempt, max_attempts, crashes, worker, " CARRIED "
from moved"
        )
    }
}

impl QueryFragment<Pg> for CompleteQuery {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.walk(false, out)
    }
}

native_query!(CompleteQuery -> ());

/// The slots of the jobs. The name and the key come from the slot: reading them from the JSON of each job would take longer than the
/// delete. A job without a slot gives nothing back, and whoever deletes its slot nudges the key.
const GIVEN_BACK: &str = "freed as (
    delete from jobs.slot where job_id = any(array(select id from moved)) returning limit_name, limit_key
), nudged as (
    insert into jobs.nudge (limit_name, limit_key) select distinct limit_name, limit_key from freed
)";

const RELEASED: Released = Released { from: "moved", when: "true" };

struct CompleteLimitedQuery(CompleteQuery);

impl QueryFragment<Pg> for CompleteLimitedQuery {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk(true, out)
    }
}

native_query!(CompleteLimitedQuery -> ());

/// The jobs of a batch that finished last, as many as were just moved. Other jobs of the batch may have finished
/// before, under the same lease.
pub(crate) struct CompletedQuery<'a>(pub(crate) &'a CompleteQuery, pub(crate) i64);

impl QueryFragment<Pg> for CompletedQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select id from jobs.finished
where id = any(" [self.0.ids => Array<BigInt>] ") and lease = " [self.0.number => Integer] " and worker = " [self.0.worker.0 => SqlUuid] " and state = 1
order by finished_at desc limit " [self.1 => BigInt]
        )
    }
}

native_query!(CompletedQuery<'a> -> BigInt);
