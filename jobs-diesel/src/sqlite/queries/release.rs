//! `permit`, `release_permit`, `unique_key` and `release_key`: the permit and the unique key of a job, and how an
//! operator takes them away.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use diesel_jobs_core::storage::{FoundPermit, KeyOfJob, LimitPermit, PermitOfJob};
use diesel_jobs_core::{JobId, JobState};
use serde_json::json;

use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::{jobs_nudge, jobs_permit, jobs_unique_key};
use crate::sqlite::time::NOW;
use crate::sqlite::types::Instant;

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

/// A running job needs its permit while its worker lives. A rescue makes it available again, and does not examine its
/// permit.
pub(crate) fn permit(conn: &mut SqliteConnection, job: JobId) -> QueryResult<PermitOfJob> {
    let rows: Vec<PermitRow> = sql_query(format!(
        "select s.limit_name, s.limit_key, s.halted_at is not null as halted,
                coalesce(j.rules -> '$[0].rule.sequence' is not null and j.rules ->> '$[0].name' = s.limit_name and j.state in ('available', 'running'), 0) as in_sequence,
                case when j.state = 'available' and not j.flags & 2 then 'available'
                     when j.state = 'running' and exists (select 1 from jobs_worker w where w.id = j.worker and w.heartbeat_at + w.lease_micros >= {NOW})
                     then 'running' end as state
         from jobs_permit s left join jobs_job j on j.id = s.job_id where s.job_id = ?1 order by s.limit_name"
    ))
    .bind::<BigInt, _>(job.0)
    .load(conn)?;
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
pub(crate) fn release_permit(conn: &mut SqliteConnection, job: JobId, actor: &str) -> QueryResult<PermitOfJob> {
    let found = permit(conn, job)?;
    let PermitOfJob::Left { limits } = &found else { return Ok(found) };
    for LimitPermit { name, key } in limits {
        diesel::delete(jobs_permit::table.find((job.0, name))).execute(conn)?;
        let row = (jobs_nudge::limit_name.eq(name), jobs_nudge::limit_key.eq(key));
        diesel::insert_into(jobs_nudge::table).values(row).execute(conn)?;
    }
    record(conn, actor, "release_permit", &format!("job {job}"), Some(&json!({ "limits": limits })))?;
    Ok(found)
}

#[derive(QueryableByName)]
struct KeyRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Bool)]
    started: bool,
    #[diesel(sql_type = Nullable<BigInt>)]
    until: Option<Instant>,
    #[diesel(sql_type = Bool)]
    in_effect: bool,
}

/// The job has its key while it waits or runs, or only while it waits for its first attempt.
pub(crate) fn key(conn: &mut SqliteConnection, job: JobId) -> QueryResult<Option<KeyOfJob>> {
    let row: Option<KeyRow> = sql_query(format!(
        "select u.name, u.key, u.started, u.until,
                (u.until is null or u.until > {NOW}) and exists (
                    select 1 from jobs_job j where j.id = u.job_id
                      and (j.state = 'available' and (j.attempt = 0 or not u.started) or j.state = 'running' and not u.started)
                ) as in_effect
         from jobs_unique_key u where u.job_id = ?1 order by u.name, u.key limit 1"
    ))
    .bind::<BigInt, _>(job.0)
    .get_result(conn)
    .optional()?;
    let key = |KeyRow { name, key, started: until_started, until, in_effect }| KeyOfJob {
        name,
        key,
        until_started,
        until: until.map(|until| until.0),
        in_effect,
    };
    Ok(row.map(key))
}

/// Deletes the unique key of a job.
pub(crate) fn release_key(conn: &mut SqliteConnection, job: JobId, actor: &str) -> QueryResult<Option<KeyOfJob>> {
    let Some(found) = key(conn, job)? else { return Ok(None) };
    diesel::delete(jobs_unique_key::table.find((&found.name, &found.key))).execute(conn)?;
    let detail = json!({ "name": found.name, "key": found.key });
    record(conn, actor, "release_key", &format!("job {job}"), Some(&detail))?;
    Ok(Some(found))
}
