//! Cancels all jobs that wait or run. Used on a database whose jobs came from another one: a restored dump or a clone.

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{Action, JobFilter, Span, When, filter_for};
use diesel_jobs_core::{Depth, StorageError};
use diesel_jobs_storage::Database;

use super::act::drive;
use super::exit::CliError;
use super::output;
use super::progress::Progress;
use super::signals::Signals;

/// Jobs per statement. A statement must end within some seconds.
const BATCH: usize = 1000;

/// Jobs per statement if the database refuses to cancel some: one that is refused undoes the statement.
const BATCH_AFTER_REFUSAL: usize = 50;

/// What [`end`] did.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) cancelled: usize,
}

/// Cancels the jobs that were enqueued before the call, and makes the schedules continue from now. Jobs that are
/// enqueued during the call stay. The audit names the actor.
pub(super) async fn end(database: &Database, actor: &str) -> Result<Ended, CliError> {
    let now = database.storage.schedules(&[]).await?.now;
    let mut ended = Ended::default();
    loop {
        match database.operator.cancel_enqueued_before(now, BATCH, actor).await {
            Ok(0) => break,
            Ok(cancelled) => ended.cancelled += cancelled,
            Err(problem @ StorageError::Refused(_)) => {
                match cancel_others(database, now, actor, ended.cancelled).await? {
                    0 => return Err(problem.into()),
                    others => ended.cancelled += others,
                }
            }
            Err(problem) => return Err(problem.into()),
        }
    }
    database.operator.forget_missed_ticks(actor).await?;
    Ok(ended)
}

/// The database refuses to cancel one of the jobs. An operation cancels the others, and names this one. Returns how
/// many it has cancelled, and an error if one is left.
async fn cancel_others(
    database: &Database,
    now: DateTime<Utc>,
    actor: &str,
    cancelled: usize,
) -> Result<usize, CliError> {
    let (operator, enqueued) = (&*database.operator, Span { before: Some(When::At(now)), after: None });
    let filter =
        filter_for(&Action::Cancel, &JobFilter { enqueued, ..JobFilter::default() }).map_err(CliError::failed)?;
    let id = operator.start_operation(&Action::Cancel, &filter, actor).await?;
    let progress = Progress::of_operation(&drive::existing(operator, id).await?, None);
    let record = drive::drive(operator, id, BATCH_AFTER_REFUSAL, progress, &mut Signals::install()?).await?;
    let others = usize::try_from(record.changed).unwrap_or_default();
    let jobs = output::count(i64::try_from(cancelled + others).unwrap_or(i64::MAX), "job");
    match (record.finished_at, record.problem) {
        _ if record.cancelled_by.is_some() => Err(CliError::failed(format!(
            "cancelled {jobs}; operation {id} was cancelled. Nothing else was changed: repeat the command"
        ))),
        (None, _) => Err(CliError::failed(format!("interrupted: cancelled {jobs}. {}", drive::advice(id)))),
        (_, Some(problem)) => Err(CliError::failed(format!(
            "cancelled {jobs}; {problem}. Nothing else was changed: remove the cause, such as a trigger of the application, and repeat the command"
        ))),
        (Some(_), None) => Ok(others),
    }
}

/// Returns how many jobs wait or run.
pub(super) async fn size(database: &Database) -> Result<Depth, CliError> {
    Ok(database.operator.stats().await?.unfinished())
}

/// Returns one line that reports what [`end`] did.
pub(super) fn said(cancelled: usize) -> String {
    let jobs = output::count(i64::try_from(cancelled).unwrap_or(i64::MAX), "job");
    format!("cancelled {jobs}; schedules continue from now\n")
}
