//! `operations`: actions on all jobs that match a filter. A step is one transaction, which holds the write lock.

use diesel::SqliteConnection;
use diesel::dsl::{insert_into, max, min, update};
use diesel::prelude::*;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{
    Action, EXAMINED_PER_STEP, JobFilter, Once, Operated, OperationId, OperationRecord, RequestKey,
};

use crate::bounded::{Found, Range, jobs};
use crate::operation::{StoredOperation, record};
use crate::sqlite::queries::find::find;
use crate::sqlite::queries::{act, audited};
use crate::sqlite::schema::{jobs_job, jobs_operation};
use crate::sqlite::time::Now;
use crate::sqlite::types::Instant;

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_operation, check_for_backend(diesel::sqlite::Sqlite))]
struct Row {
    id: i64,
    action: String,
    argument: Option<String>,
    filter: String,
    actor: String,
    created_at: Instant,
    next_id: i64,
    last_id: i64,
    examined: i64,
    changed: i64,
    finished_at: Option<Instant>,
    cancelled_by: Option<String>,
    problem: Option<String>,
}

impl From<Row> for StoredOperation {
    fn from(row: Row) -> Self {
        let record = OperationRecord {
            id: OperationId(row.id),
            action: row.action,
            argument: row.argument,
            filter: record::filter(&row.filter),
            actor: row.actor,
            created_at: row.created_at.0,
            next_id: JobId(row.next_id),
            last_id: JobId(row.last_id),
            examined: row.examined,
            changed: row.changed,
            finished_at: row.finished_at.map(|at| at.0),
            cancelled_by: row.cancelled_by,
            problem: row.problem,
        };
        Self { record, filter: row.filter }
    }
}

/// Starts an operation on all jobs that exist now. The audit gets the key of the request.
pub(crate) fn start(
    conn: &mut SqliteConnection,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
    key: Option<&RequestKey>,
) -> QueryResult<OperationId> {
    let (first, last): (Option<i64>, Option<i64>) = (
        jobs_job::table.select(min(jobs_job::id)).first(conn)?,
        jobs_job::table.select(max(jobs_job::id)).first(conn)?,
    );
    let now: Instant = diesel::select(Now).get_result(conn)?;
    let filter = filter.fixed(now.0);
    let id: i64 = insert_into(jobs_operation::table)
        .values((
            jobs_operation::action.eq(action.as_str()),
            jobs_operation::argument.eq(action.argument()),
            jobs_operation::filter.eq(record::json(&filter)?),
            jobs_operation::actor.eq(actor),
            jobs_operation::next_id.eq(first.unwrap_or(0)),
            jobs_operation::last_id.eq(last.unwrap_or(-1)),
        ))
        .returning(jobs_operation::id)
        .get_result(conn)?;
    audited::record(conn, &record::started(id, action, &filter, actor, key))?;
    Ok(OperationId(id))
}

/// [`start`] for a request with a key, unless it was done before.
pub(crate) fn start_once(
    conn: &mut SqliteConnection,
    key: &RequestKey,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
) -> QueryResult<Once<OperationId>> {
    match audited::before(conn, key)? {
        Some(before) => Ok(Once::Before(before)),
        None => start(conn, action, filter, actor, Some(key)).map(Once::Now),
    }
}

/// Whether there is an open operation: this one, or any. Only reads.
pub(crate) fn is_open(conn: &mut SqliteConnection, only: Option<OperationId>) -> QueryResult<bool> {
    open(conn, only).map(|open| open.is_some())
}

fn open(conn: &mut SqliteConnection, only: Option<OperationId>) -> QueryResult<Option<StoredOperation>> {
    let (from, to) = only.map_or((i64::MIN, i64::MAX), |id| (id.0, id.0));
    let row: Option<Row> = jobs_operation::table
        .filter(jobs_operation::finished_at.is_null())
        .filter(jobs_operation::id.ge(from).and(jobs_operation::id.le(to)))
        .order(jobs_operation::id)
        .select(Row::as_select())
        .first(conn)
        .optional()?;
    Ok(row.map(StoredOperation::from))
}

/// Does the next batch of this operation, or of the oldest. Returns also how many jobs it has changed.
pub(crate) fn step(
    conn: &mut SqliteConnection,
    only: Option<OperationId>,
    limit: usize,
) -> QueryResult<Option<(OperationRecord, usize)>> {
    let Some(stored) = open(conn, only)? else { return Ok(None) };
    let (action, filter) = match stored.read() {
        Ok(read) => read,
        Err(problem) => {
            let record = OperationRecord { problem: Some(problem), ..stored.record };
            return store(conn, &record, true).map(|record| Some((record, 0)));
        }
    };
    let mut record = stored.record;
    let (lowest, highest) = (record.next_id.0, record.last_id.0);
    let range = Range { lowest, highest, ascends: true, limit: limit.max(1), examined: EXAMINED_PER_STEP };
    let Found { ids, searched_to } = range.merge(find(conn, &filter, range, true)?);
    let mut changed = 0_usize;
    for id in jobs(&ids) {
        // If the database refuses one job, only the changes to this job are undone.
        let answer = conn.transaction(|conn| act::one(conn, &action, id, &record.actor));
        match answer {
            Ok(Operated::Done | Operated::Enqueued(_)) => changed += 1,
            Ok(_) => {}
            Err(problem @ diesel::result::Error::DatabaseError(..)) => {
                record::left_out(&mut record, &[id.0], &format!("the database refused: {problem}"));
            }
            Err(problem) => return Err(problem),
        }
    }
    let searched_to = searched_to.unwrap_or(highest);
    let passed = jobs_job::table.filter(jobs_job::id.ge(lowest).and(jobs_job::id.le(searched_to)));
    let examined: Vec<i64> =
        passed.select(jobs_job::id).limit(i64::try_from(EXAMINED_PER_STEP).unwrap_or(i64::MAX)).load(conn)?;
    record.examined = record.examined.saturating_add(i64::try_from(examined.len()).unwrap_or(i64::MAX));
    record.changed = record.changed.saturating_add(i64::try_from(changed).unwrap_or(i64::MAX));
    record.next_id = JobId(searched_to.saturating_add(1));
    store(conn, &record, searched_to >= highest).map(|record| Some((record, changed)))
}

fn store(conn: &mut SqliteConnection, record: &OperationRecord, is_done: bool) -> QueryResult<OperationRecord> {
    let row = jobs_operation::table.find(record.id.0);
    update(row)
        .set((
            jobs_operation::next_id.eq(record.next_id.0),
            jobs_operation::examined.eq(record.examined),
            jobs_operation::changed.eq(record.changed),
            jobs_operation::problem.eq(&record.problem),
        ))
        .execute(conn)?;
    if is_done {
        update(row).set(jobs_operation::finished_at.eq(Now.nullable())).execute(conn)?;
        audited::record(conn, &record::ended(record))?;
    }
    let row: Row = row.select(Row::as_select()).first(conn)?;
    Ok(StoredOperation::from(row).record)
}

/// Ends an operation before it is done.
pub(crate) fn cancel(conn: &mut SqliteConnection, id: OperationId, actor: &str) -> QueryResult<bool> {
    let open = jobs_operation::table.filter(jobs_operation::id.eq(id.0)).filter(jobs_operation::finished_at.is_null());
    let ended = (jobs_operation::finished_at.eq(Now.nullable()), jobs_operation::cancelled_by.eq(actor));
    if update(open).set(ended).execute(conn)? == 0 {
        return Ok(false);
    }
    audited::record(conn, &record::cancelled(id, actor.to_owned()))?;
    Ok(true)
}

/// The newest operations before this one, newest first.
pub(crate) fn operations(
    conn: &mut SqliteConnection,
    before: Option<OperationId>,
    limit: i64,
) -> QueryResult<Vec<OperationRecord>> {
    let rows: Vec<Row> = jobs_operation::table
        .filter(jobs_operation::id.lt(before.map_or(i64::MAX, |id| id.0)))
        .order(jobs_operation::id.desc())
        .limit(limit)
        .select(Row::as_select())
        .load(conn)?;
    Ok(rows.into_iter().map(|row| StoredOperation::from(row).record).collect())
}

/// One operation.
pub(crate) fn operation(conn: &mut SqliteConnection, id: OperationId) -> QueryResult<Option<OperationRecord>> {
    let row: Option<Row> = jobs_operation::table.find(id.0).select(Row::as_select()).first(conn).optional()?;
    Ok(row.map(|row| StoredOperation::from(row).record))
}
