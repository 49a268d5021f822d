//! `complete`: `finish` for batches whose jobs all completed in the same way. These are the usual batches while many
//! jobs run without failures. It sends one column where `finish` sends six or more, and has no parts for other
//! transitions. This saves a third of the server's work.
//!
//! It leaves out rows that any session has ever locked (`xmax`), because it would wait for a lock that is still held.
//! `finish` handles those rows. `for update skip locked` would do both at once, but it costs the server a tenth more
//! per job.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Claim, Finished};
use diesel_jobs_core::{Finish, JobId, Keep, Transition, WorkerId};

use super::claim::{self, ClaimedRow};
use super::columns::{CARRIED, FINISHED};
use super::free_keys::FreeKeys;
use super::pass_on::{ClaimNext, PassOn};
use crate::pg::native::{native_query, seconds, sql};

/// The job of the row that the statement with permits returns beside those of the claimed jobs. No job has this id.
const NO_JOB: JobId = JobId(0);

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
        let alike = |Finish { lease, transition, .. }: &Finish| {
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

    /// Moves the jobs out of `running`. Returns the ids of those whose lease was valid and whose row was not locked.
    ///
    /// The statement returns only the number of moved rows, because a statement that returns all ids takes a tenth
    /// longer. If the number is smaller than the batch, a second statement reads the ids. If another session prunes or
    /// retries a job between the two statements, the job counts as refused. This costs a line in the log and a check by
    /// the reconciler.
    pub(super) async fn complete(self, conn: &mut AsyncPgConnection) -> QueryResult<Vec<i64>> {
        let moved = RunQueryDsl::execute(&self, conn).await?;
        self.ids_of(moved, conn).await
    }

    /// The same for jobs with a limit or a unique key. It passes permits on, and claims the jobs that get one, if
    /// `next` wants them.
    pub(crate) async fn complete_limited(
        self,
        next: Option<&Claim>,
        conn: &mut AsyncPgConnection,
    ) -> QueryResult<Finished> {
        let worker = self.worker;
        let claim_next = ClaimNext::new(worker, self.ids.len(), next);
        let limited = CompleteLimitedQuery { complete: self, pass_on: PassOn(claim_next) };
        // All rows have the same numbers.
        let rows: Vec<(i64, i64, bool, i64, ClaimedRow)> = RunQueryDsl::load(&limited, conn).await?;
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        let (moved, made, is_free) =
            rows.as_slice().first().map_or((0, 0, false), |row| (number(row.0), number(row.1), row.2));
        let claimed = rows.into_iter().map(|row| row.4.into_job(worker));
        let mut claimed: Vec<_> = claimed.filter(|job| job.lease.job != NO_JOB).collect();
        claim::sort(&mut claimed);
        let moved = limited.complete.ids_of(moved, conn).await?.into_iter().map(JobId).collect();
        Ok(Finished { moved, passed_on: made, claimed, is_free })
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

    fn walk<'b>(&'b self, pass_on: Option<&'b PassOn<'b>>, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let moved: QueryResult<()> = sql!(
            out,
            "with moved as (
    delete from jobs.running r
    where r.id = any(" [self.ids => Array<BigInt>] ") and r.lease = " [self.number => Integer] " and r.worker = " [self.worker.0 => SqlUuid] " and r.xmax = 0
    returning r.*
)"
        );
        moved?;
        if let Some(pass_on) = pass_on {
            sql!(out, ", " {*pass_on} ", " {RELEASED} ", ended as (")?;
        }
        let ended: QueryResult<()> = sql!(
            out,
            "
insert into jobs.finished (" FINISHED ", " CARRIED ")
select id, run_at, claimed_at, now() + make_interval(secs => " [self.keep => Nullable<Double>] "), lease, 1, attempt, max_attempts, crashes, worker, " CARRIED "
from moved"
        );
        ended?;
        if pass_on.is_some() {
            let numbers = "
    returning 1
)
select numbers.*, claimed.* from (
    select (select count(*) from ended), (select count(*) from made), exists (select from nudged), (select count(*) from woken)
) numbers cross join (
    select * from claimed
    union all select 0, 0, '', '', 0, 'null'::json, now(), now(), now(), null
) claimed";
            out.push_sql(numbers);
        }
        Ok(())
    }
}

impl QueryFragment<Pg> for CompleteQuery {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.walk(None, out)
    }
}

native_query!(CompleteQuery -> ());

const RELEASED: FreeKeys = FreeKeys { from: "moved", when: "true" };

struct CompleteLimitedQuery<'a> {
    complete: CompleteQuery,
    pass_on: PassOn<'a>,
}

impl QueryFragment<Pg> for CompleteLimitedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.complete.walk(Some(&self.pass_on), out)
    }
}

native_query!(CompleteLimitedQuery<'a> -> (BigInt, BigInt, Bool, BigInt, claim::Row));

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
