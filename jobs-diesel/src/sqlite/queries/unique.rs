//! The enqueue of a job with a unique key. The insert of the key takes the write lock, so no other transaction changes
//! what it reads afterwards.
//!
//! A row of `jobs_unique_key` says which job has the key. The job has the key while it waits or runs (if `started` is
//! set: while it waits for its first attempt), and at most until the time in `until`. Otherwise the row is without
//! effect. A trigger deletes the row when its job ends.

use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::flags::{HELD, LIMITED};
use diesel_jobs_core::{JobId, NewJob, OnConflict, Replace, UniqueKey, Until};

use crate::sqlite::time::{FAR, NOW, micros};

pub(crate) type Statement<'a> = BoxedSqlQuery<'a, Sqlite, SqlQuery>;

/// The job that has a key.
#[derive(QueryableByName, Debug)]
pub(crate) struct Holder {
    #[diesel(sql_type = BigInt)]
    job_id: i64,
    #[diesel(sql_type = Bool)]
    waits: bool,
    #[diesel(sql_type = Bool)]
    runs: bool,
}

/// What the enqueue does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It inserts its own job, which gets the key.
    Insert,
    /// It keeps this job.
    Keep(JobId),
    /// It changes this job, which waits.
    Replace(JobId),
    /// It fails because of this job.
    Fail(JobId),
}

/// Inserts the key, if no other job has it. Returns how many rows it has inserted.
pub(crate) fn reserve(unique: &UniqueKey) -> Statement<'_> {
    sql_query(format!(
        "insert into jobs_unique_key (name, key, job_id, started, until) values (?1, ?2, 0, ?3, {NOW} + ?4) on conflict do nothing"
    ))
    .into_boxed()
    .bind::<Text, _>(&*unique.name)
    .bind::<Text, _>(&unique.key)
    .bind::<Bool, _>(unique.rule.until == Until::Started)
    .bind::<Nullable<BigInt>, _>(unique.rule.within.map(micros))
}

/// The job that has the key, and where it is.
pub(crate) fn holder(unique: &UniqueKey) -> Statement<'_> {
    sql_query(format!(
        "select k.job_id,
                coalesce(j.state = 'available' and (j.attempt = 0 or not k.started) and (k.until is null or k.until > {NOW}), false) as waits,
                coalesce(j.state = 'running' and not k.started and (k.until is null or k.until > {NOW}), false) as runs
         from jobs_unique_key k left join jobs_job j on j.id = k.job_id where k.name = ?1 and k.key = ?2"
    ))
    .into_boxed()
    .bind::<Text, _>(&*unique.name)
    .bind::<Text, _>(&unique.key)
}

/// Decides from the job that has the key.
pub(crate) fn decide(unique: &UniqueKey, holder: Option<&Holder>) -> Decision {
    let Some(Holder { job_id, waits, runs }) = holder else { return Decision::Insert };
    let job = JobId(*job_id);
    match unique.rule.on_conflict {
        _ if !waits && !runs => Decision::Insert,
        OnConflict::Error => Decision::Fail(job),
        OnConflict::Replace(_) | OnConflict::Debounce { .. } | OnConflict::RunAgain if *waits => Decision::Replace(job),
        // It is in a sequence behind the running job.
        OnConflict::RunAgain => Decision::Insert,
        _ => Decision::Keep(job),
    }
}

/// Gives the key to this job.
pub(crate) fn give(unique: &UniqueKey, job: JobId) -> Statement<'_> {
    sql_query(format!(
        "update jobs_unique_key set job_id = ?3, started = ?4, until = {NOW} + ?5 where name = ?1 and key = ?2"
    ))
    .into_boxed()
    .bind::<Text, _>(&*unique.name)
    .bind::<Text, _>(&unique.key)
    .bind::<BigInt, _>(job.0)
    .bind::<Bool, _>(unique.rule.until == Until::Started)
    .bind::<Nullable<BigInt>, _>(unique.rule.within.map(micros))
}

/// Changes the waiting job that has the key. A held job keeps its place in `run_at`, and its key is nudged. A job that
/// was admitted and is now scheduled is held again, and triggers free its permits.
pub(crate) fn replace<'a>(job: JobId, new: &'a NewJob, on_conflict: OnConflict) -> Statement<'a> {
    let (what, quiet, max) = match on_conflict {
        OnConflict::Replace(what) => (what, None, None),
        OnConflict::Debounce { quiet, max } => (Replace::new().args(), Some(micros(quiet)), Some(micros(max))),
        OnConflict::RunAgain => (Replace::new().args(), None, None),
        _ => (Replace::new(), None, None),
    };
    let (delay, not_before) = new.run_at.parts();
    let (delay, not_before) = (delay.map_or(0, micros), not_before.map_or(0, |at| at.timestamp_micros()));
    let due = format!(
        "case when ?5 is not null then min({NOW} + ?5, enqueued_at + ?6) when ?7 then max({NOW} + ?8, ?9) else coalesce(due_at, run_at) end"
    );
    let is_held = format!("(flags & {HELD} or flags & {LIMITED} and {due} > {NOW})");
    sql_query(format!(
        "update jobs_job set args = case when ?2 then ?3 else args end, priority = coalesce(?4, priority),
                due_at = case when {is_held} then {due} end, start_by = {due} + start_after, held_back = case when {is_held} then {due} > {NOW} else held_back end,
                run_at = case when {is_held} then {FAR} else {due} end, flags = case when {is_held} then flags | {HELD} else flags end
         where id = ?1"
    ))
    .into_boxed()
    .bind::<BigInt, _>(job.0)
    .bind::<Bool, _>(what.args)
    .bind::<Text, _>(&*new.args)
    .bind::<Nullable<Integer>, _>(what.priority.then_some(i32::from(new.priority)))
    .bind::<Nullable<BigInt>, _>(quiet)
    .bind::<Nullable<BigInt>, _>(max)
    .bind::<Bool, _>(what.run_at)
    .bind::<BigInt, _>(delay)
    .bind::<BigInt, _>(not_before)
}
