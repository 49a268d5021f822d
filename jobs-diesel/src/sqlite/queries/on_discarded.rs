//! The jobs that are enqueued when others are discarded: stores the rules, and applies them in the transaction that
//! discards a job.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel_jobs_core::{DiscardRule, Discarded, Failure, FailureKind, JobId};

use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::failures;
use crate::sqlite::schema::{jobs_job, jobs_on_discarded};
use crate::sqlite::types::count;

type Columns = (
    jobs_on_discarded::kind,
    jobs_on_discarded::enqueues,
    jobs_on_discarded::queue,
    jobs_on_discarded::priority,
    jobs_on_discarded::max_attempts,
    jobs_on_discarded::args,
    jobs_on_discarded::argument,
);
const COLUMNS: Columns = (
    jobs_on_discarded::kind,
    jobs_on_discarded::enqueues,
    jobs_on_discarded::queue,
    jobs_on_discarded::priority,
    jobs_on_discarded::max_attempts,
    jobs_on_discarded::args,
    jobs_on_discarded::argument,
);
type Row = (String, String, String, i16, i32, String, String);

/// Whether the stored rules of these kinds are others than these. Only reads.
pub(crate) fn differ(conn: &mut SqliteConnection, kinds: &[String], rules: &[DiscardRule]) -> QueryResult<bool> {
    let mut stored = stored(conn)?;
    stored.retain(|rule| kinds.contains(&rule.kind));
    Ok(stored.len() != rules.len() || rules.iter().any(|rule| !stored.contains(rule)))
}

/// Stores the rules of these kinds. Kinds without a rule get none.
pub(crate) fn declare(conn: &mut SqliteConnection, kinds: &[String], rules: &[DiscardRule]) -> QueryResult<()> {
    for kind in kinds {
        diesel::delete(jobs_on_discarded::table.find(kind)).execute(conn)?;
    }
    for rule in rules {
        diesel::insert_into(jobs_on_discarded::table)
            .values((
                jobs_on_discarded::kind.eq(&rule.kind),
                jobs_on_discarded::enqueues.eq(&rule.enqueues),
                jobs_on_discarded::queue.eq(&rule.queue),
                jobs_on_discarded::priority.eq(rule.priority),
                jobs_on_discarded::max_attempts.eq(i32::from(rule.max_attempts)),
                jobs_on_discarded::args.eq(&rule.args),
                jobs_on_discarded::argument.eq(&rule.argument),
            ))
            .execute(conn)?;
    }
    Ok(())
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
    let Some(rule) = rule.map(rule_of) else { return Ok(()) };
    let (attempt, max_attempts) = (count(attempt), count(max_attempts));
    let (error, failure) = (failure.message.clone(), failure.kind);
    let discarded = Discarded { id: job, kind, queue, attempt, max_attempts, failure, error };
    let follower = rule.job(&discarded).map_err(|problem| Error::SerializationError(problem.into()));
    let enqueued = conn.transaction(|conn| Insert::one(&follower?).execute(conn));
    match enqueued {
        Ok(_) => Ok(()),
        // A trigger of the application, or a rule that was changed by hand. The job ends without it, or it could never end.
        Err(problem) => {
            let text = format!("the job `{}` for this discarded job was refused: {problem}", rule.enqueues);
            failures::record(conn, job, &Failure::new(FailureKind::Error, &text))
        }
    }
}

fn stored(conn: &mut SqliteConnection) -> QueryResult<Vec<DiscardRule>> {
    let rows: Vec<Row> = jobs_on_discarded::table.select(COLUMNS).load(conn)?;
    Ok(rows.into_iter().map(rule_of).collect())
}

fn rule_of((kind, enqueues, queue, priority, max_attempts, args, argument): Row) -> DiscardRule {
    DiscardRule { kind, enqueues, queue, priority, max_attempts: count(max_attempts), args, argument }
}
