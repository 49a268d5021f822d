//! Cancels, retries or reschedules jobs. The statements have the ids of the jobs as a JSON list, so that they run on
//! each type of connection: on those of operators, and on the application's own. The transaction around them holds the
//! write lock: the first statement of an application's change writes.

use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::flags::{EXPIRES, HELD, KNOWN, LIMITED};
use diesel_jobs_core::storage::{CANCELLED, MAX_ERRORS_PER_JOB, cancel_fingerprint};
use diesel_jobs_core::{Failure, FailureKind, Retention, Selected};

use crate::job_change::{JobChange, Verb};
use crate::sqlite::time::{FAR, NOW, micros};

pub(crate) type Statement<'a> = BoxedSqlQuery<'a, Sqlite, SqlQuery>;

/// Who changes jobs on the application's own connection: a file has no roles.
const APPLICATION: &str = "the application";

/// The jobs of a change.
#[derive(QueryableByName, Debug)]
pub(crate) struct Found {
    /// Their ids, as a JSON list.
    #[diesel(sql_type = Text)]
    pub(crate) ids: String,
    #[diesel(sql_type = BigInt)]
    number: i64,
}

impl Found {
    pub(crate) fn number(&self) -> usize {
        usize::try_from(self.number).unwrap_or_default()
    }
}

/// Finds the jobs of an application's change, and writes the change to the audit. Returns no row if there are none.
pub(crate) fn begin(change: &JobChange) -> Statement<'_> {
    let states = match change.verb {
        Verb::Cancel => "'available', 'running'",
        Verb::Retry => "'available', 'cancelled', 'discarded'",
        Verb::Reschedule(_) => "'available'",
    };
    let which = match &change.selected {
        Selected::Ids(_) => "id in (select value from json_each(?2))".to_owned(),
        Selected::Tag(_) => "exists (select 1 from json_each(jobs_job.tags) where value = ?2)".to_owned(),
        Selected::Key(_) => format!(
            "id in (select k.job_id from jobs_unique_key k where k.name = ?2 and k.key = ?4 and (k.until is null or k.until > {NOW})
                    and (not k.started or jobs_job.state = 'available' and jobs_job.attempt = 0))"
        ),
    };
    let (selected, key) = match &change.selected {
        Selected::Ids(ids) => (serde_json::to_string(ids).unwrap_or_default(), None),
        Selected::Tag(tag) => (tag.clone(), None),
        Selected::Key(unique) => (unique.name.to_string(), Some(unique.key.as_str())),
    };
    let argument = if let Verb::Reschedule(at) = change.verb { Some(at.to_rfc3339()) } else { None };
    let begin = sql_query(format!(
        "insert into jobs_audit (actor, action, target, detail)
         select '{APPLICATION}', ?1, case number when 1 then 'job ' || first else number || ' jobs' end,
                json_patch('{{}}', json_object('ids', json(ids), 'argument', ?3))
         from (select count(*) as number, min(id) as first, json_group_array(id) as ids from (
             select id from jobs_job where state in ({states}) and flags & ~{KNOWN} = 0 and {which} order by id
         )) where number > 0
         returning detail ->> '$.ids' as ids, json_array_length(detail, '$.ids') as number"
    ))
    .into_boxed()
    .bind::<Text, _>(change.verb.as_str())
    .bind::<Text, _>(selected)
    .bind::<Nullable<Text>, _>(argument);
    match key {
        Some(key) => begin.bind::<Text, _>(key),
        None => begin,
    }
}

/// The statements that change these jobs.
pub(crate) fn statements<'a>(verb: Verb, ids: &'a str) -> Vec<Statement<'a>> {
    match verb {
        Verb::Cancel => {
            let mut reason = Failure::new(FailureKind::Cancelled, &format!("cancelled by {APPLICATION}"));
            reason.fingerprint = cancel_fingerprint(CANCELLED);
            cancel(ids, &reason, Some(APPLICATION), micros(Retention::default().cancelled)).into()
        }
        Verb::Retry => vec![retry(ids)],
        Verb::Reschedule(at) => vec![reschedule(ids, at.timestamp_micros())],
    }
}

/// Ends waiting and running jobs as cancelled. The lease of a running job is then lost, and the worker needs no other
/// message. They are kept for `keep` microseconds, unless an operator has set another time.
pub(crate) fn cancel<'a>(ids: &'a str, reason: &Failure, actor: Option<&'a str>, keep: i64) -> [Statement<'a>; 3] {
    // The failure is recorded first, because the end of a job may clear its worker.
    let record = sql_query(format!(
        "insert into jobs_job_error (job_id, attempt, kind, message, started_at, worker, at, fingerprint, actor)
         select id, attempt, 'cancelled', ?2, claimed_at, worker, {NOW}, ?3, ?4 from jobs_job where id in (select value from json_each(?1))"
    ))
    .into_boxed()
    .bind::<Text, _>(ids)
    .bind::<Text, _>(reason.message.clone())
    .bind::<BigInt, _>(reason.fingerprint)
    .bind::<Nullable<Text>, _>(actor);
    let make_room = sql_query(format!(
        "delete from jobs_job_error where job_id in (select value from json_each(?1)) and id <= (
             select e.id from jobs_job_error e where e.job_id = jobs_job_error.job_id order by e.id desc limit 1 offset {MAX_ERRORS_PER_JOB}
         )"
    ))
    .into_boxed()
    .bind::<Text, _>(ids);
    let set = "jobs_retention r where r.kind in (jobs_job.kind, '') and r.state = 'cancelled'";
    let end = sql_query(format!(
        "update jobs_job set state = 'cancelled', finished_at = {NOW},
                expires_at = case when exists (select 1 from {set}) then (select {NOW} + r.keep_micros from {set} order by r.kind desc limit 1)
                                  else {NOW} + ?2 end
         where id in (select value from json_each(?1))"
    ))
    .into_boxed()
    .bind::<Text, _>(ids)
    .bind::<BigInt, _>(keep);
    [record, make_room, end]
}

/// Makes jobs available now, with at least one attempt left. Their crashes become 0, because somebody has examined
/// them. One that has ended does not expire any more. The lease number becomes at least 1, because they may have
/// failures: see `complete`. A job with rules that has no permit waits for them again.
pub(crate) fn retry(ids: &str) -> Statement<'_> {
    let waits = format!("(flags & {LIMITED} and (flags & {HELD} or state not in ('available', 'running')))");
    sql_query(format!(
        "update jobs_job set state = 'available', lease = max(lease, 1), max_attempts = max(max_attempts, attempt + 1), crashes = 0,
                worker = null, claimed_at = null, finished_at = null, expires_at = null,
                flags = case when state = 'available' then flags else flags & ~{EXPIRES} end | case when {waits} then {HELD} else 0 end,
                start_by = case when state = 'available' then start_by end,
                due_at = case when {waits} then {NOW} else due_at end, held_back = case when {waits} then 0 else held_back end,
                run_at = case when {waits} then {FAR} else {NOW} end
         where id in (select value from json_each(?1))"
    ))
    .into_boxed()
    .bind::<Text, _>(ids)
}

/// Sets the time of waiting jobs. One with rules that is scheduled has no permit.
pub(crate) fn reschedule(ids: &str, at: i64) -> Statement<'_> {
    let at_or_now = format!("max(?2, {NOW})");
    let is_held = format!("(flags & {HELD} or flags & {LIMITED} and {at_or_now} > {NOW})");
    sql_query(format!(
        "update jobs_job set due_at = case when {is_held} then {at_or_now} end,
                start_by = case when flags & {EXPIRES} and attempt = 0 then {at_or_now} + start_after else start_by end,
                held_back = case when {is_held} then {at_or_now} > {NOW} else held_back end,
                run_at = case when {is_held} then {FAR} else {at_or_now} end,
                flags = case when {is_held} then flags | {HELD} else flags end
         where id in (select value from json_each(?1))"
    ))
    .into_boxed()
    .bind::<Text, _>(ids)
    .bind::<BigInt, _>(at)
}
