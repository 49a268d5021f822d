//! What admission could not do: a job that the file does not make available, for a reason that may pass, or a key at
//! which a pass has failed. Passes leave such a key out for a while, and such a job is not due meanwhile. So neither
//! stops the others. A job that the file refuses to end, or to rescue, is there without a key.

use std::collections::HashSet;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_jobs_core::JobId;

use crate::sqlite::queries::keys::{Key, Number};
use crate::sqlite::time::NOW;

/// The condition for jobs of `jobs_job` that are not left out, up to the time.
pub(super) const IS_NOT_LEFT_OUT: &str = "not exists (
    select 1 from jobs_admission_failure f
    where f.limit_name = jobs_job.limit_name and f.limit_key = jobs_job.limit_key and f.job_id = jobs_job.id and f.next_at > ";

/// The condition for jobs of `jobs_job` that the file has not refused to end, up to the time.
pub(super) const MAY_END: &str = "not exists (
    select 1 from jobs_admission_failure f
    where f.limit_name = '' and f.limit_key = '' and f.job_id = jobs_job.id and f.next_at > ";

/// The condition for keys to which it is time to look at again.
pub(super) const IS_DUE: &str = "exists (select 1 from jobs_admission_failure where job_id = 0 and next_at <= ";

/// The keys that are left out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// It is not time yet.
    pub(super) waiting: Vec<Key>,
    /// They are tried again now.
    pub(super) due: Vec<Key>,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(embed)]
    key: Key,
    #[diesel(sql_type = Bool)]
    is_due: bool,
}

pub(super) fn left_out(conn: &mut SqliteConnection) -> QueryResult<LeftOut> {
    let rows: Vec<Row> = sql_query(format!(
        "select limit_name, limit_key, next_at <= {NOW} as is_due from jobs_admission_failure where job_id = 0"
    ))
    .load(conn)?;
    let mut found = LeftOut::default();
    for Row { key, is_due } in rows {
        if is_due { found.due.push(key) } else { found.waiting.push(key) }
    }
    Ok(found)
}

/// The jobs that the file has refused to end or to rescue, and that are not tried again yet.
pub(super) fn jobs_left_out(conn: &mut SqliteConnection) -> QueryResult<HashSet<i64>> {
    let rows: Vec<Number> = sql_query(format!(
        "select job_id as number from jobs_admission_failure where limit_name = '' and limit_key = '' and job_id <> 0 and next_at > {NOW}"
    ))
    .load(conn)?;
    Ok(rows.into_iter().map(|row| row.number).collect())
}

/// How many keys and jobs are left out. Only reads.
pub(crate) fn count(conn: &mut SqliteConnection) -> QueryResult<i64> {
    let row: Number = sql_query(
        "select count(*) as number from jobs_admission_failure f
         where f.job_id = 0 or f.limit_key <> '' and exists (select 1 from jobs_job where id = f.job_id and flags & 2 and held_back = 1)",
    )
    .get_result(conn)?;
    Ok(row.number)
}

/// Notes that a pass has failed at this key, or at this job of it, or, without a key, that the job did not end. It is
/// tried again after a second, and twice as late each time, up to a minute. An error that has ended the transaction is
/// returned: then nothing can be noted.
pub(super) fn note(conn: &mut SqliteConnection, key: &Key, job: Option<JobId>, error: Error) -> QueryResult<()> {
    // A trigger with `raise(rollback, ..)` ends the transaction, and then the savepoint of this job does not exist.
    let is_over = error.to_string().contains("no such savepoint");
    if is_over
        || matches!(
            error,
            Error::BrokenTransactionManager | Error::RollbackErrorOnCommit { .. } | Error::NotInTransaction
        )
    {
        return Err(error);
    }
    let text: String = error.to_string().chars().take(500).collect();
    sql_query(format!(
        "insert into jobs_admission_failure (limit_name, limit_key, job_id, since, next_at, message) values (?1, ?2, ?3, {NOW}, {NOW} + 1000000, ?4)
         on conflict (limit_name, limit_key, job_id) do update set
             failures = min(failures, 999999) + 1, message = excluded.message, next_at = {NOW} + min(1 << min(failures, 6), 60) * 1000000"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .bind::<BigInt, _>(job.map_or(0, |job| job.0))
    .bind::<Text, _>(text)
    .execute(conn)
    .map(drop)
}

/// Lets a held job wait until the time that [`note`] has stored for it. The jobs behind it are admitted first.
pub(super) fn put_off(conn: &mut SqliteConnection, id: JobId, error: Error) -> QueryResult<()> {
    let key: Key = sql_query("select limit_name, limit_key from jobs_job where id = ?1")
        .bind::<BigInt, _>(id.0)
        .get_result(conn)?;
    note(conn, &key, Some(id), error)?;
    sql_query(
        "update jobs_job set held_back = 1, due_at = (select max(next_at) from jobs_admission_failure where job_id = ?1) where id = ?1",
    )
    .bind::<BigInt, _>(id.0)
    .execute(conn)
    .map(drop)
}

/// The key was handled.
pub(super) fn forget(conn: &mut SqliteConnection, key: &Key) -> QueryResult<()> {
    sql_query("delete from jobs_admission_failure where limit_name = ?1 and limit_key = ?2 and job_id = 0")
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)
        .map(drop)
}

/// The job was rescued.
pub(super) fn forget_job(conn: &mut SqliteConnection, id: JobId) -> QueryResult<()> {
    sql_query("delete from jobs_admission_failure where limit_name = '' and limit_key = '' and job_id = ?1")
        .bind::<BigInt, _>(id.0)
        .execute(conn)
        .map(drop)
}

/// Forgets jobs that are not held any more, those that have become due and did not fail again, and those that have
/// ended.
pub(super) fn forget_started(conn: &mut SqliteConnection) -> QueryResult<()> {
    sql_query(format!(
        "delete from jobs_admission_failure where job_id <> 0
         and (next_at < {NOW} - 600000000 or not exists (
             select 1 from jobs_job where id = job_id
             and (flags & 2 or jobs_admission_failure.limit_key = '' and state in ('available', 'running'))
         ))"
    ))
    .execute(conn)
    .map(drop)
}
