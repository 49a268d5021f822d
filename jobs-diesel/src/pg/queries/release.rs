//! `permit`, `release_permit`, `unique_key` and `release_key`: the permit and the unique key of a job, and how an
//! operator takes them away. The row of the job is locked first, so that admission, a rescue and a finish do not move
//! the job meanwhile. Rows that another session has locked are waited for, because the operator asks for just this job.

use chrono::{DateTime, Utc};
use diesel::dsl::{delete, insert_into};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Nullable, Text, Timestamptz};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{FoundPermit, KeyOfJob, LimitPermit, PermitOfJob};
use diesel_jobs_core::{JobId, JobState};
use serde_json::json;

use super::audit::record;
use crate::pg::schema::{nudge, permit, unique_key};

/// A running job needs its permit while its worker lives. A rescue makes the job available again without checking its
/// permit.
const PERMIT: &str = "
select s.limit_name, s.limit_key, s.halted_at is not null as halted, coalesce(job.rules #> '{0,rule,sequence}' is not null and job.rules #>> '{0,name}' = s.limit_name, false) as in_sequence, job.state
from jobs.permit s left join lateral (
    select r.rules, 'available' as state from jobs.ready r where r.id = s.job_id
    union all
    select r.rules, case when exists (select from jobs.worker w where w.id = r.worker and w.heartbeat_at >= now() - w.lease) then 'running' end
    from jobs.running r where r.id = s.job_id
    union all
    select h.rules, null from jobs.held h where h.id = s.job_id
    limit 1
) job on true
where s.job_id = $1 order by s.limit_name";

#[derive(QueryableByName)]
struct PermitRow {
    #[diesel(sql_type = Text)]
    limit_name: String,
    #[diesel(sql_type = Text)]
    limit_key: String,
    #[diesel(sql_type = Bool)]
    halted: bool,
    #[diesel(sql_type = Bool)]
    in_sequence: bool,
    #[diesel(sql_type = Nullable<Text>)]
    state: Option<String>,
}

pub(crate) async fn permit(conn: &mut AsyncPgConnection, job: JobId) -> QueryResult<PermitOfJob> {
    let rows: Vec<PermitRow> = sql_query(PERMIT).bind::<BigInt, _>(job.0).load(conn).await?;
    // It is the state of the job, so all rows have the same one.
    let state: Option<JobState> = rows.iter().find_map(|row| row.state.as_deref()?.parse().ok());
    let found = |PermitRow { limit_name: name, limit_key: key, halted, in_sequence: is_sequence, .. }| FoundPermit {
        permit: LimitPermit { name, key },
        is_sequence,
        halted,
    };
    Ok(PermitOfJob::of(rows.into_iter().map(found).collect(), state))
}

/// Deletes the permits of a job that does not need them. Returns what it has found.
pub(crate) async fn release_permit(conn: &mut AsyncPgConnection, job: JobId, actor: &str) -> QueryResult<PermitOfJob> {
    let actor = actor.to_owned();
    conn.transaction(async move |conn| {
        for lock in [
            "select id from jobs.held where id = $1 for no key update",
            "select id from jobs.running where id = $1 for no key update",
        ] {
            sql_query(lock).bind::<BigInt, _>(job.0).execute(conn).await?;
        }
        let found = permit(conn, job).await?;
        let PermitOfJob::Left { limits } = &found else { return Ok(found) };
        for LimitPermit { name, key } in limits {
            delete(permit::table.find((job.0, name))).execute(conn).await?;
            let row = (nudge::limit_name.eq(name), nudge::limit_key.eq(key));
            insert_into(nudge::table).values(row).execute(conn).await?;
        }
        sql_query("select jobs.wake_admission()").execute(conn).await?;
        record(conn, &actor, "release_permit", &format!("job {job}"), Some(&json!({ "limits": limits }))).await?;
        Ok(found)
    })
    .await
}

/// The job has its key while it waits or runs, or only while it waits for its first attempt.
const KEY: &str = "
select u.name, u.key, u.started, u.until,
       (u.until is null or u.until > now()) and (
           exists (select from jobs.held h where h.id = u.job_id and (h.attempt = 0 or not u.started) offset 0)
           or exists (select from jobs.ready r where r.id = u.job_id and (r.attempt = 0 or not u.started) offset 0)
           or not u.started and exists (select from jobs.running r where r.id = u.job_id offset 0)
       ) as in_effect
from jobs.unique_key u where u.job_id = $1 order by u.name, u.key limit 1";

#[derive(QueryableByName)]
struct KeyRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Bool)]
    started: bool,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    until: Option<DateTime<Utc>>,
    #[diesel(sql_type = Bool)]
    in_effect: bool,
}

pub(crate) async fn key(conn: &mut AsyncPgConnection, job: JobId) -> QueryResult<Option<KeyOfJob>> {
    let row: Option<KeyRow> = sql_query(KEY).bind::<BigInt, _>(job.0).get_result(conn).await.optional()?;
    let key = |KeyRow { name, key, started: until_started, until, in_effect }| KeyOfJob {
        name,
        key,
        until_started,
        until,
        in_effect,
    };
    Ok(row.map(key))
}

/// Deletes the unique key of a job. An enqueue that holds the row may give it to its own job; then this job has none.
pub(crate) async fn release_key(
    conn: &mut AsyncPgConnection,
    job: JobId,
    actor: &str,
) -> QueryResult<Option<KeyOfJob>> {
    let actor = actor.to_owned();
    conn.transaction(async move |conn| {
        let Some(found) = key(conn, job).await? else { return Ok(None) };
        let own = unique_key::table.find((&found.name, &found.key)).filter(unique_key::job_id.eq(job.0));
        if delete(own).execute(conn).await? == 0 {
            return Ok(None);
        }
        let detail = json!({ "name": found.name, "key": found.key });
        record(conn, &actor, "release_key", &format!("job {job}"), Some(&detail)).await?;
        Ok(Some(found))
    })
    .await
}
