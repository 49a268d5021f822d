//! `tick`: enqueues the jobs of a schedule's tick. One worker does this: the one that locks the row while `last_tick`
//! still has the value that the worker has read. There is no leader. A row that another session has locked is passed
//! over. If an open transaction has the unique key of a job, the tick soon [fails](super::super::patience) and is tried
//! again: to wait until that transaction ends would delay the schedules that come later.

use chrono::{DateTime, Utc};
use diesel::dsl::{now, sql, update};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_jobs_core::NewJob;
use diesel_jobs_core::storage::StoredSchedule;

use super::super::enqueue_connection::insert_many;
use super::scan::NOT_FROZEN;
use crate::changed_schedule::newest;
use crate::flags::ScheduleFlagsKnown;
use crate::pg::patience::Patience;
use crate::pg::schema::schedule;

pub(crate) async fn tick(
    conn: &mut AsyncPgConnection,
    patience: &Patience,
    stored: &StoredSchedule,
    last_tick: DateTime<Utc>,
    jobs: &[NewJob],
) -> QueryResult<bool> {
    let (stored, jobs, limit) = (stored.clone(), jobs.to_vec(), patience.limit());
    conn.transaction(async move |conn| {
        let row = schedule::table.find(&stored.name);
        let guard = row.filter(schedule::last_tick.eq(stored.last_tick)).filter(schedule::paused.eq(false));
        let guard = guard.filter(sql::<Bool>(NOT_FROZEN)).filter(ScheduleFlagsKnown("schedule"));
        let locked = guard.select(schedule::name).for_no_key_update().skip_locked();
        if locked.first::<String>(conn).await.optional()?.is_none() {
            return Ok(false);
        }
        conn.batch_execute(limit).await?;
        let enqueued = insert_many::<AsyncPgConnection>(conn, jobs).await?;
        let at = schedule::last_run_at.eq(now.into_sql::<Timestamptz>().nullable());
        let last_run = newest(&enqueued).map(|newest| (schedule::last_job.eq(newest), at));
        update(row).set((schedule::last_tick.eq(last_tick), last_run)).execute(conn).await?;
        Ok(true)
    })
    .await
    .map_err(|error| patience.explained(error, OF_TICK))
}

const OF_TICK: &str = "an open transaction has the unique key of its job, or has locked a table";
/// For a declaration.
pub(super) const OF_ROW: &str = "an open transaction has locked its row or the table";
