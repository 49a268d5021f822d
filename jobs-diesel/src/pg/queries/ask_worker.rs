//! `ask_worker`, `running`, `running_in`: what operators ask of workers, and what workers run now.
//!
//! `running` reads `jobs.running`, which has a row per running job and no index by worker. It is small: as many rows as
//! there are slots, and those that are prefetched.

use chrono::{DateTime, Utc};
use diesel::dsl::{now, update};
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Asked, RunningJob};
use diesel_jobs_core::{JobId, WorkerId};

use super::audit::record;
use crate::pg::schema::{running, worker};

/// Returns `false` if there is no such worker.
pub(crate) async fn ask(conn: &mut AsyncPgConnection, id: WorkerId, asked: Asked, actor: &str) -> QueryResult<bool> {
    let actor = actor.to_owned();
    conn.transaction(async move |conn| {
        let row = worker::table.find(id.0);
        let stored: Option<Option<String>> =
            row.select(worker::asked).for_no_key_update().first(conn).await.optional()?;
        let Some(stored) = stored else { return Ok(false) };
        if stored.as_deref() == Some(asked.as_str()) || stored.as_deref() == Some(Asked::Stop.as_str()) {
            return Ok(true);
        }
        update(row)
            .set((
                worker::asked.eq(asked.as_str()),
                worker::asked_at.eq(now.into_sql::<Timestamptz>().nullable()),
                worker::asked_by.eq(&actor),
            ))
            .execute(conn)
            .await?;
        record(conn, &actor, asked.as_str(), &format!("worker {id}"), None).await?;
        Ok(true)
    })
    .await
}

pub(crate) async fn running(conn: &mut AsyncPgConnection, id: WorkerId) -> QueryResult<Vec<RunningJob>> {
    let rows: Vec<(i64, String, String, i16, DateTime<Utc>)> = running::table
        .filter(running::worker.eq(id.0))
        .order((running::claimed_at, running::id))
        .select((running::id, running::kind, running::queue, running::attempt, running::claimed_at))
        .load(conn)
        .await?;
    let job = |(id, kind, queue, attempt, claimed_at): (i64, _, _, i16, _)| RunningJob {
        id: JobId(id),
        kind,
        queue,
        attempt: u16::try_from(attempt).unwrap_or_default(),
        claimed_at,
    };
    Ok(rows.into_iter().map(job).collect())
}

pub(crate) async fn running_in(conn: &mut AsyncPgConnection, queue: &str) -> QueryResult<u64> {
    let running: i64 = running::table.filter(running::queue.eq(queue)).count().get_result(conn).await?;
    Ok(u64::try_from(running).unwrap_or_default())
}
