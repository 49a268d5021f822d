//! Chooses the statements for a batch of finishes: the cheapest that can do it.

use diesel::QueryResult;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{Finish, JobId, Transition};

use super::complete::CompleteQuery;
use super::delete::DeleteQuery;
use super::finish::FinishQuery;
use super::finish_variants::{
    DiscardUnlockedQuery, EverythingQuery, FinishUnlockedQuery, LimitedQuery, LimitedUnlockedQuery, RecordUnlockedQuery,
};

/// Whether a finish does more than to move its job: it gives something back, or a job that has snoozed does not expire
/// any more.
fn needs_more(one: &Finish) -> bool {
    one.flags.gives_back() || one.flags.expires() && matches!(one.transition, Transition::Snooze(_))
}

/// The statement that completes the jobs with limits or unique keys and passes their permits on. Returns `None` if
/// there are none, or if they did not all complete in the same way: `finish` moves them.
pub(crate) fn limited(batch: &[Finish]) -> Option<CompleteQuery> {
    let limited: Vec<Finish> = batch.iter().filter(|one| needs_more(one)).cloned().collect();
    CompleteQuery::new(&limited)
}

/// Moves these jobs out of `running` with the cheapest statements. Returns those whose lease was valid and whose row no
/// other session had locked.
pub(crate) async fn finish(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<JobId>> {
    if !batch.iter().any(needs_more) {
        return finish_plain(conn, batch).await;
    }
    let (limited, plain): (Vec<Finish>, Vec<Finish>) = batch.iter().cloned().partition(needs_more);
    let moved: Vec<Vec<i64>> = LimitedUnlockedQuery(FinishQuery::new(&limited)).load(conn).await?;
    let mut moved: Vec<JobId> = moved.into_iter().flatten().map(JobId).collect();
    if !plain.is_empty() {
        moved.extend(finish_plain(conn, &plain).await?);
    }
    Ok(moved)
}

/// The same for jobs without a limit and a unique key.
async fn finish_plain(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<JobId>> {
    let mut moved = complete(conn, batch).await?;
    if moved.len() < batch.len() {
        let rest: Vec<Finish> = batch.iter().filter(|one| !moved.contains(&one.lease.job.0)).cloned().collect();
        let discards = rest.iter().any(|one| matches!(one.transition, Transition::Discard { .. }));
        let fails = rest.iter().any(|one| one.transition.failure().is_some());
        let query = FinishQuery::new(&rest);
        // There is only one row, but `get_result` would return it before the statement is committed.
        let rest: Vec<Vec<i64>> = match discards {
            true => DiscardUnlockedQuery(query).load(conn).await?,
            false if fails => RecordUnlockedQuery(query).load(conn).await?,
            false => FinishUnlockedQuery(query).load(conn).await?,
        };
        moved.extend(rest.into_iter().flatten());
    }
    Ok(moved.into_iter().map(JobId).collect())
}

/// The statement for finishes inside the transaction of a handler.
pub(crate) enum Inside {
    Plain,
    /// For limits and unique keys.
    Limited,
    /// For discarded jobs. Only a batch discards jobs in its transaction: the jobs that it answers as failed.
    Everything,
}

impl Inside {
    pub(crate) fn of(finishes: &[Finish]) -> Self {
        if finishes.iter().any(|one| matches!(one.transition, Transition::Discard { .. })) {
            Self::Everything
        } else if finishes.iter().any(needs_more) {
            Self::Limited
        } else {
            Self::Plain
        }
    }
}

/// The same inside the transaction of a handler, for all its jobs. It waits for rows that are locked. Returns `false`
/// if a lease is lost.
pub(crate) async fn finish_in(conn: &mut AsyncPgConnection, finishes: &[Finish]) -> QueryResult<bool> {
    let query = FinishQuery::new(finishes);
    let moved: Vec<i64> = match Inside::of(finishes) {
        Inside::Plain => query.get_result(conn).await?,
        Inside::Limited => LimitedQuery(query).get_result(conn).await?,
        Inside::Everything => EverythingQuery(query).get_result(conn).await?,
    };
    Ok(moved.len() == finishes.len())
}

async fn complete(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<i64>> {
    if let Some(complete) = CompleteQuery::new(batch) {
        return complete.complete(conn).await;
    }
    // There is only one row, but `get_result` would return it before the statement is committed.
    let moved: Vec<Vec<i64>> = match DeleteQuery::new(batch) {
        Some(delete) => delete.load(conn).await?,
        None => Vec::new(),
    };
    Ok(moved.into_iter().flatten().collect())
}
