//! Chooses the statements for a batch of finishes: the cheapest that can do it.

use diesel::QueryResult;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{Finish, Transition};

use super::complete::CompleteQuery;
use super::delete::DeleteQuery;
use super::finish::{
    DiscardUnlockedQuery, EverythingQuery, FinishQuery, FinishUnlockedQuery, LimitedQuery, LimitedUnlockedQuery,
    RecordUnlockedQuery,
};

/// Moves these jobs out of `running` with the cheapest statements. Returns the ids of those whose lease stood and whose
/// row no other session had locked.
pub(crate) async fn finish(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<i64>> {
    let gives_back = |one: &Finish| one.lease.gives_back();
    if !batch.iter().any(gives_back) {
        return finish_plain(conn, batch).await;
    }
    let (limited, plain): (Vec<Finish>, Vec<Finish>) = batch.iter().cloned().partition(gives_back);
    let mut moved = match CompleteQuery::new(&limited) {
        Some(complete) => complete.complete_limited(conn).await?,
        None => Vec::new(),
    };
    if moved.len() < limited.len() {
        let rest: Vec<Finish> = limited.into_iter().filter(|one| !moved.contains(&one.lease.job.0)).collect();
        let rest: Vec<Vec<i64>> = LimitedUnlockedQuery(FinishQuery::new(&rest)).load(conn).await?;
        moved.extend(rest.into_iter().flatten());
    }
    if !plain.is_empty() {
        moved.extend(finish_plain(conn, &plain).await?);
    }
    Ok(moved)
}

/// The same for jobs without a limit and a unique key.
async fn finish_plain(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<i64>> {
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
    Ok(moved)
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
        } else if finishes.iter().any(|one| one.lease.gives_back()) {
            Self::Limited
        } else {
            Self::Plain
        }
    }
}

/// The same inside the transaction of a handler, for all its jobs. It waits for rows that are locked. Returns `false` if a lease is lost.
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
