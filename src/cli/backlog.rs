//! Ending all jobs that wait or run, for a database that came with somebody else's: those of a restored dump or a clone.

use diesel_jobs_storage::Database;

use super::exit::CliError;
use super::output;

/// Jobs per statement: a statement has some seconds.
const BATCH: usize = 1000;

/// What was ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) cancelled: usize,
}

/// Cancels what was enqueued before this moment, and has schedules go on from it. Jobs that are enqueued meanwhile stay.
pub(super) async fn end(database: &Database) -> Result<Ended, CliError> {
    let (_, now) = database.storage.schedules().await?;
    let mut ended = Ended::default();
    loop {
        match database.operator.cancel_enqueued_before(now, BATCH).await? {
            0 => break,
            cancelled => ended.cancelled += cancelled,
        }
    }
    database.operator.forget_missed_ticks().await?;
    Ok(ended)
}

/// How many jobs wait or run.
pub(super) async fn size(database: &Database) -> Result<i64, CliError> {
    let stats = database.operator.stats().await?;
    Ok(stats.iter().map(|kind| kind.available + kind.scheduled + kind.retrying + kind.running).sum())
}

/// What is said of it, one line.
pub(super) fn said(cancelled: usize) -> String {
    let jobs = output::count(i64::try_from(cancelled).unwrap_or(i64::MAX), "job");
    format!("cancelled {jobs}; schedules go on from now\n")
}
