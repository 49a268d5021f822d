//! A step of an operation: the next jobs, the action on them, and the note how far the operation is, in one
//! transaction.
//!
//! A job that another transaction has locked is waited for, for [`LONGEST_WAIT_FOR_LOCKS`]. Then the operation
//! continues and says which jobs it has left out. Meanwhile the step holds no lock of a job, only that of the
//! operation.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs_core::__private::acted;
use diesel_jobs_core::storage::{
    Action, EXAMINED_PER_STEP, JobFilter, LONGEST_WAIT_FOR_LOCKS, OperationId, OperationRecord, StorageResult,
};
use diesel_jobs_core::{JobId, StorageError};

use super::act::change;
use super::queries::audited::Actor;
use super::queries::count_examined::CountExaminedQuery;
use super::queries::find::FindQuery;
use super::queries::lock_jobs::{LockJobsQuery, tables};
use super::queries::operation::{lock, store};
use super::{PgStorage, run};
use crate::bounded::{Found, FoundRow, Range};
use crate::operation::record::left_out;

/// The shortest pause between two tries to lock the jobs.
const AGAIN: Duration = Duration::from_millis(50);

impl PgStorage {
    /// One step. If the database refuses the batch because of one of its jobs, the jobs are done one by one, and that
    /// one is left out.
    pub(super) async fn step(&self, only: Option<OperationId>, limit: usize) -> StorageResult<Option<OperationRecord>> {
        let refused = |answer: &StorageResult<_>| matches!(answer, Err(StorageError::Refused(_)));
        let mut answer = run!(self, "step_operation", conn => step(conn, only, limit));
        if refused(&answer) && limit > 1 {
            answer = run!(self, "step_operation", conn => step(conn, only, 1));
        }
        match answer {
            Err(StorageError::Refused(problem)) => {
                let why = format!("the database refused: {problem}");
                run!(self, "step_operation", conn => leave_out_next(conn, only, &why))
            }
            answer => Ok(answer?.map(|(record, changed)| {
                acted(&record.action, changed);
                record
            })),
        }
    }
}

fn range(record: &OperationRecord, limit: usize) -> Range {
    Range {
        lowest: record.next_id.0,
        highest: record.last_id.0,
        ascends: true,
        limit: limit.max(1),
        examined: EXAMINED_PER_STEP,
    }
}

async fn find(conn: &mut AsyncPgConnection, filter: &JobFilter, range: Range) -> QueryResult<Found> {
    let rows: Vec<FoundRow> = match FindQuery::new(filter, range, true) {
        Some(query) => query.load(conn).await?,
        None => Vec::new(),
    };
    Ok(range.merge(rows))
}

/// One step. Returns also how many jobs it has changed.
async fn step(
    conn: &mut AsyncPgConnection,
    only: Option<OperationId>,
    limit: usize,
) -> QueryResult<Option<(OperationRecord, usize)>> {
    conn.transaction(async move |conn| {
        let Some(stored) = lock(conn, only).await? else { return Ok(None) };
        let (action, filter) = match stored.read() {
            Ok(read) => read,
            Err(problem) => {
                let record = OperationRecord { problem: Some(problem), ..stored.record };
                return store(conn, &record, true).await.map(|record| Some((record, 0)));
            }
        };
        let mut record = stored.record;
        let range = range(&record, limit);
        let found = find(conn, &filter, range).await?;
        let (changed, locked) = act_on(conn, &action, &filter, found.ids, &record.actor).await?;
        if !locked.is_empty() {
            left_out(&mut record, &locked, "other transactions have held them locked");
        }
        let searched_to = found.searched_to.unwrap_or(record.last_id.0);
        let examined: Vec<i64> = CountExaminedQuery { lowest: range.lowest, highest: searched_to }.load(conn).await?;
        record.examined = record.examined.saturating_add(examined.iter().sum());
        record.changed = record.changed.saturating_add(i64::try_from(changed).unwrap_or(i64::MAX));
        let is_done = searched_to >= record.last_id.0;
        record.next_id = JobId(searched_to.saturating_add(1));
        store(conn, &record, is_done).await.map(|record| Some((record, changed)))
    })
    .await
}

/// Acts on these jobs. Returns how many it has changed, and those that others hold locked.
///
/// While it waits for jobs of others it holds none: two operations on the same jobs would otherwise wait for each
/// other.
async fn act_on(
    conn: &mut AsyncPgConnection,
    action: &Action,
    filter: &JobFilter,
    mut left: Vec<i64>,
    actor: &str,
) -> QueryResult<(usize, Vec<i64>)> {
    let actor = Actor { name: actor, is_audited: false };
    let begun = Instant::now();
    loop {
        conn.batch_execute("savepoint jobs_locks").await?;
        let mut free: HashSet<i64> = HashSet::new();
        for table in tables(action) {
            free.extend(LockJobsQuery { table, ids: left.clone() }.load::<i64>(conn).await?);
        }
        // A `rerun` only reads.
        let (ours, others): (Vec<i64>, Vec<i64>) =
            left.iter().copied().partition(|id| free.contains(id) || *action == Action::Rerun);
        // A job that has moved meanwhile and does not match any more is not waited for.
        let locked = if others.is_empty() { others } else { matching(conn, filter, others).await? };
        if locked.is_empty() || begun.elapsed() >= LONGEST_WAIT_FOR_LOCKS {
            let changed = if ours.is_empty() { 0 } else { change(conn, action, ours, actor).await?.len() };
            return Ok((changed, locked));
        }
        conn.batch_execute("rollback to savepoint jobs_locks").await?;
        tokio::time::sleep(again()).await;
        left.retain(|id| free.contains(id) || locked.contains(id));
    }
}

/// Those of these jobs that still match.
async fn matching(conn: &mut AsyncPgConnection, filter: &JobFilter, ids: Vec<i64>) -> QueryResult<Vec<i64>> {
    let mut still = filter.clone();
    still.ids = ids.into_iter().map(JobId).collect();
    let limit = still.ids.len();
    let range = Range { lowest: i64::MIN, highest: i64::MAX, ascends: true, limit, examined: limit };
    Ok(find(conn, &still, range).await?.ids)
}

/// The pause until the next try. It differs from session to session, so that two of them do not try at the same times.
fn again() -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    AGAIN + Duration::from_millis(u64::from(now.subsec_micros() % 97))
}

/// Passes over the next job, which the database refuses to change.
async fn leave_out_next(
    conn: &mut AsyncPgConnection,
    only: Option<OperationId>,
    why: &str,
) -> QueryResult<Option<OperationRecord>> {
    conn.transaction(async move |conn| {
        let Some(stored) = lock(conn, only).await? else { return Ok(None) };
        let mut record = stored.record.clone();
        let Ok((_, filter)) = stored.read() else { return Ok(Some(record)) };
        let found = find(conn, &filter, range(&record, 1)).await?;
        if !found.ids.is_empty() {
            left_out(&mut record, &found.ids, why);
        }
        let to = found.ids.last().copied().or(found.searched_to).unwrap_or(record.last_id.0);
        record.next_id = JobId(to.saturating_add(1));
        let is_done = to >= record.last_id.0;
        store(conn, &record, is_done).await.map(Some)
    })
    .await
}
