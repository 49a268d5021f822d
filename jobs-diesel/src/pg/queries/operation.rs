//! `operations`: actions on all jobs that match a filter. Their rows in `jobs.operation`.

use chrono::{DateTime, Utc};
use diesel::dsl::{exists, insert_into, now, select, update};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Timestamptz};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{Action, JobFilter, Once, OperationId, OperationRecord, RequestKey};

use super::audited;
use crate::operation::{StoredOperation, record};
use crate::pg::native::RawJson;
use crate::pg::schema::operation;

#[derive(Queryable, Selectable)]
#[diesel(table_name = operation, check_for_backend(diesel::pg::Pg))]
struct Row {
    id: i64,
    action: String,
    argument: Option<String>,
    filter: RawJson,
    actor: String,
    created_at: DateTime<Utc>,
    next_id: i64,
    last_id: i64,
    examined: i64,
    changed: i64,
    finished_at: Option<DateTime<Utc>>,
    cancelled_by: Option<String>,
    problem: Option<String>,
}

impl From<Row> for StoredOperation {
    fn from(row: Row) -> Self {
        let filter = String::from_utf8_lossy(&row.filter.0).into_owned();
        let record = OperationRecord {
            id: OperationId(row.id),
            action: row.action,
            argument: row.argument,
            filter: record::filter(&filter),
            actor: row.actor,
            created_at: row.created_at,
            next_id: JobId(row.next_id),
            last_id: JobId(row.last_id),
            examined: row.examined,
            changed: row.changed,
            finished_at: row.finished_at,
            cancelled_by: row.cancelled_by,
            problem: row.problem,
        };
        Self { record, filter }
    }
}

#[derive(QueryableByName)]
struct Ends {
    #[diesel(sql_type = Nullable<BigInt>)]
    first: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    last: Option<i64>,
    #[diesel(sql_type = Timestamptz)]
    at: DateTime<Utc>,
}

/// The lowest and the highest id of all jobs. Each is one step in an index.
const ENDS: &str = "select least((select id from jobs.ready order by id limit 1), (select id from jobs.held order by id limit 1), (select id from jobs.running order by id limit 1),
             (select id from jobs.finished order by id limit 1)) as first,
       greatest((select id from jobs.ready order by id desc limit 1), (select id from jobs.held order by id desc limit 1), (select id from jobs.running order by id desc limit 1),
                (select id from jobs.finished order by id desc limit 1)) as last,
       clock_timestamp() as at";

/// Whether an operation is open. Reads at most one entry of the index `operation_open`.
pub(crate) async fn is_any_open(conn: &mut AsyncPgConnection) -> QueryResult<bool> {
    select(exists(operation::table.filter(operation::finished_at.is_null()))).get_result(conn).await
}

/// Starts an operation on all jobs that exist now.
pub(crate) async fn start(
    conn: &mut AsyncPgConnection,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
) -> QueryResult<OperationId> {
    let (action, filter, actor) = (action.clone(), filter.clone(), actor.to_owned());
    conn.transaction(async move |conn| insert(conn, &action, &filter, &actor, None).await).await
}

/// [`start`] for a request with a key, unless it was done before.
pub(crate) async fn start_once(
    conn: &mut AsyncPgConnection,
    key: &RequestKey,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
) -> QueryResult<Once<OperationId>> {
    let (key, action, filter, actor) = (*key, action.clone(), filter.clone(), actor.to_owned());
    conn.transaction(async move |conn| {
        if let Some(before) = audited::before(conn, &key).await? {
            return Ok(Once::Before(before));
        }
        insert(conn, &action, &filter, &actor, Some(&key)).await.map(Once::Now)
    })
    .await
}

async fn insert(
    conn: &mut AsyncPgConnection,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
    key: Option<&RequestKey>,
) -> QueryResult<OperationId> {
    let Ends { first, last, at } = sql_query(ENDS).get_result(conn).await?;
    let filter = filter.fixed(at);
    let id: i64 = insert_into(operation::table)
        .values((
            operation::action.eq(action.as_str()),
            operation::argument.eq(action.argument()),
            operation::filter.eq(RawJson(record::json(&filter)?.into_bytes())),
            operation::actor.eq(actor),
            operation::next_id.eq(first.unwrap_or(0)),
            operation::last_id.eq(last.unwrap_or(-1)),
        ))
        .returning(operation::id)
        .get_result(conn)
        .await?;
    audited::record(conn, &record::started(id, action, &filter, actor, key)).await?;
    Ok(OperationId(id))
}

/// Locks an open operation that no other session works on: this one, or the oldest.
pub(crate) async fn lock(
    conn: &mut AsyncPgConnection,
    only: Option<OperationId>,
) -> QueryResult<Option<StoredOperation>> {
    let (from, to) = only.map_or((i64::MIN, i64::MAX), |id| (id.0, id.0));
    let row: Option<Row> = operation::table
        .filter(operation::finished_at.is_null())
        .filter(operation::id.ge(from).and(operation::id.le(to)))
        .order(operation::id)
        .limit(1)
        .for_no_key_update()
        .skip_locked()
        .select(Row::as_select())
        .first(conn)
        .await
        .optional()?;
    Ok(row.map(StoredOperation::from))
}

/// Stores how far an operation is. `is_done`: it has ended.
pub(crate) async fn store(
    conn: &mut AsyncPgConnection,
    record: &OperationRecord,
    is_done: bool,
) -> QueryResult<OperationRecord> {
    let row: Row = update(operation::table.find(record.id.0))
        .set((
            operation::next_id.eq(record.next_id.0),
            operation::examined.eq(record.examined),
            operation::changed.eq(record.changed),
            operation::problem.eq(&record.problem),
        ))
        .returning(Row::as_returning())
        .get_result(conn)
        .await?;
    if !is_done {
        return Ok(StoredOperation::from(row).record);
    }
    let row: Row = update(operation::table.find(record.id.0))
        .set(operation::finished_at.eq(now.into_sql::<Timestamptz>().nullable()))
        .returning(Row::as_returning())
        .get_result(conn)
        .await?;
    let record = StoredOperation::from(row).record;
    audited::record(conn, &record::ended(&record)).await?;
    Ok(record)
}

/// Ends an operation before it is done. It waits until a step of another session is done.
pub(crate) async fn cancel(conn: &mut AsyncPgConnection, id: OperationId, actor: &str) -> QueryResult<bool> {
    let actor = actor.to_owned();
    conn.transaction(async move |conn| {
        let open = operation::table.find(id.0).filter(operation::finished_at.is_null());
        let ended =
            (operation::finished_at.eq(now.into_sql::<Timestamptz>().nullable()), operation::cancelled_by.eq(&actor));
        if update(open).set(ended).execute(conn).await? == 0 {
            return Ok(false);
        }
        audited::record(conn, &record::cancelled(id, actor)).await?;
        Ok(true)
    })
    .await
}

/// The newest operations before this one, newest first.
pub(crate) async fn operations(
    conn: &mut AsyncPgConnection,
    before: Option<OperationId>,
    limit: i64,
) -> QueryResult<Vec<OperationRecord>> {
    let rows: Vec<Row> = operation::table
        .filter(operation::id.lt(before.map_or(i64::MAX, |id| id.0)))
        .order(operation::id.desc())
        .limit(limit)
        .select(Row::as_select())
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(|row| StoredOperation::from(row).record).collect())
}

/// One operation.
pub(crate) async fn operation(conn: &mut AsyncPgConnection, id: OperationId) -> QueryResult<Option<OperationRecord>> {
    let row: Option<Row> = operation::table.find(id.0).select(Row::as_select()).first(conn).await.optional()?;
    Ok(row.map(|row| StoredOperation::from(row).record))
}
