//! The jobs that are enqueued when others are discarded: stores the rules, and applies them in the transaction that
//! discards a job.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel_jobs_core::storage::DiscardRules;
use diesel_jobs_core::{DiscardRule, Discarded, Failure, FailureKind, JobId, Rules};

use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::failures;
use crate::sqlite::queries::worker::ticking;
use crate::sqlite::schema::{jobs_job, jobs_on_discarded, jobs_worker};
use crate::sqlite::time::micros;
use crate::sqlite::types::{Worker, count};

type Columns = (
    jobs_on_discarded::kind,
    jobs_on_discarded::enqueues,
    jobs_on_discarded::queue,
    jobs_on_discarded::priority,
    jobs_on_discarded::max_attempts,
    jobs_on_discarded::args,
    jobs_on_discarded::argument,
    jobs_on_discarded::rules,
    jobs_on_discarded::expires_micros,
);
const COLUMNS: Columns = (
    jobs_on_discarded::kind,
    jobs_on_discarded::enqueues,
    jobs_on_discarded::queue,
    jobs_on_discarded::priority,
    jobs_on_discarded::max_attempts,
    jobs_on_discarded::args,
    jobs_on_discarded::argument,
    jobs_on_discarded::rules,
    jobs_on_discarded::expires_micros,
);
type Row = (String, String, String, i16, i32, String, String, Option<String>, Option<i64>);

/// The rules, with those that live workers declare.
pub(crate) fn rules(conn: &mut SqliteConnection) -> QueryResult<DiscardRules> {
    let rows: Vec<Row> = jobs_on_discarded::table.select(COLUMNS).load(conn)?;
    let live: Vec<(Worker, Option<String>)> =
        ticking().select((jobs_worker::id, jobs_worker::discard_rules)).load(conn)?;
    let read = |(id, text): (Worker, Option<String>)| Some((id.0, serde_json::from_str(&text?).ok()?));
    Ok(DiscardRules {
        stored: rows.into_iter().map(|row| (row.0.clone(), rule_of(row).ok())).collect(),
        live: live.into_iter().filter_map(read).collect(),
    })
}

/// Stores the rule of a kind, or deletes it. Returns `false` if a live worker declares it as it is stored by now.
pub(crate) fn declare(conn: &mut SqliteConnection, kind: &str, rule: Option<&DiscardRule>) -> QueryResult<bool> {
    let rules = rules(conn)?;
    if rules.stands(kind, rule) || rules.is_kept(kind) {
        return Ok(rules.stands(kind, rule));
    }
    let Some(rule) = rule else {
        return diesel::delete(jobs_on_discarded::table.find(kind)).execute(conn).map(|_| true);
    };
    diesel::replace_into(jobs_on_discarded::table)
        .values((
            jobs_on_discarded::kind.eq(&rule.kind),
            jobs_on_discarded::enqueues.eq(&rule.enqueues),
            jobs_on_discarded::queue.eq(&rule.queue),
            jobs_on_discarded::priority.eq(rule.priority),
            jobs_on_discarded::max_attempts.eq(i32::from(rule.max_attempts)),
            jobs_on_discarded::args.eq(&rule.args),
            jobs_on_discarded::argument.eq(&rule.argument),
            jobs_on_discarded::rules.eq(rule.rules.to_json()),
            jobs_on_discarded::expires_micros.eq(rule.expires.map(micros)),
        ))
        .execute(conn)
        .map(|_| true)
}

/// Enqueues what the rule of its kind says about a job that is discarded in this transaction.
pub(crate) fn apply(conn: &mut SqliteConnection, job: JobId, failure: &Failure) -> QueryResult<()> {
    let gone: Option<(String, String, i32, i32)> = jobs_job::table
        .find(job.0)
        .select((jobs_job::kind, jobs_job::queue, jobs_job::attempt, jobs_job::max_attempts))
        .first(conn)
        .optional()?;
    let Some((kind, queue, attempt, max_attempts)) = gone else { return Ok(()) };
    let rule: Option<Row> = jobs_on_discarded::table.find(&kind).select(COLUMNS).first(conn).optional()?;
    let Some(rule) = rule else { return Ok(()) };
    let enqueues = rule.1.clone();
    let (attempt, max_attempts) = (count(attempt), count(max_attempts));
    let (error, failure) = (failure.message.clone(), failure.kind);
    let discarded = Discarded { id: job, kind, queue, attempt, max_attempts, failure, error };
    let follower = rule_of(rule)
        .and_then(|rule| rule.job(&discarded).map_err(|problem| Error::SerializationError(problem.into())));
    let enqueued = conn.transaction(|conn| Insert::one(&follower?).execute(conn));
    match enqueued {
        Ok(_) => Ok(()),
        // A trigger of the application, or a rule that was changed by hand. The job ends without it, or it could never
        // end.
        Err(problem) => {
            let text = format!("the job `{enqueues}` for this discarded job was refused: {problem}");
            failures::record(conn, job, &Failure::new(FailureKind::Error, &text))
        }
    }
}

fn rule_of(row: Row) -> QueryResult<DiscardRule> {
    let (kind, enqueues, queue, priority, max_attempts, args, argument, rules, expires) = row;
    let rules = rules.map(|rules| Rules::read(rules.as_bytes())).transpose();
    let rules = rules.map_err(|problem| Error::DeserializationError(problem.into()))?.unwrap_or_default();
    let expires = expires.map(|micros| Duration::from_micros(micros.unsigned_abs()));
    let max_attempts = count(max_attempts);
    Ok(DiscardRule { kind, enqueues, queue, priority, max_attempts, args, argument, rules, expires })
}
