//! Cancels all jobs that wait or run. Used on a database whose jobs came from another one: a restored dump or a clone.

use diesel_jobs_core::Depth;
use diesel_jobs_storage::Database;

use super::exit::CliError;
use super::output;

/// Jobs per statement. A statement must end within some seconds.
const BATCH: usize = 1000;

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
        match database.operator.cancel_enqueued_before(now, BATCH, actor).await? {
            0 => break,
            cancelled => ended.cancelled += cancelled,
        }
    }
    database.operator.forget_missed_ticks(actor).await?;
    Ok(ended)
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
