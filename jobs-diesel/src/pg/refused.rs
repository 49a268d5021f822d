//! What to do when the database refuses a statement because of the content of a row. The row is set apart and the
//! statement is tried once more. No single row may stop a queue.

use diesel_async::RunQueryDsl;
use diesel_jobs_core::storage::{Claim, StorageResult, Transacted};
use diesel_jobs_core::{Finish, Transition};

use super::levels::Plan;
use super::queries::set_apart::{
    SetFinishedApart, SetHistoryApart, SetQuarantinedApart, SetRunningApart, SetWaitingApart,
};
use super::{PgStorage, run};
use crate::meaning::row;

/// Runs an operation that a single row can make fail. If rows are set apart after an error, it runs once more.
macro_rules! run_apart {
    ($storage:expr, $operation:literal, $set_apart:expr, $conn:ident => $work:expr) => {{
        let answer = $crate::pg::run!($storage, $operation, $conn => $work);
        if answer.as_ref().is_err_and($crate::meaning::row::may_be_the_cause) && $set_apart.await? {
            $crate::pg::run!($storage, $operation, $conn => $work)
        } else {
            answer
        }
    }};
}

pub(super) use run_apart;

/// For operations that find out which jobs the database refuses: if it does not let rows be set apart either, they go
/// on with the first error.
pub(super) fn if_possible(is_apart: StorageResult<bool>) -> StorageResult<bool> {
    match is_apart {
        Err(problem) if row::is_answer(&problem) => Ok(false),
        is_apart => is_apart,
    }
}

type Row = (i64, String, String);

/// The reason for the rollback if an earlier job with the same id has ended.
pub(super) const HISTORY: &str = "the history of an earlier job with the same id (23505)";

/// Whether an attempt failed for that reason: its handler called `complete_in`. The next attempt would fail in the same
/// way.
fn failed_for_history(finish: &Finish) -> bool {
    matches!(&finish.transition, Transition::Retry { failure, .. } if row::names_history(&failure.message))
}

impl PgStorage {
    /// Sets apart the waiting rows that this claim cannot move. Returns `false` if there are none.
    pub(super) async fn set_waiting_apart(&self, claim: &Claim, plan: &Plan) -> StorageResult<bool> {
        let gone: Vec<Row> = run!(self, "set_apart", conn => SetWaitingApart::new(claim, plan).load(conn))?;
        Ok(tell(&gone))
    }

    /// The same for quarantined rows.
    pub(super) async fn set_quarantined_apart(&self, claim: &Claim) -> StorageResult<bool> {
        let gone: Vec<Row> = run!(self, "set_apart", conn => SetQuarantinedApart::new(claim).load(conn))?;
        Ok(tell(&gone))
    }

    /// Sets apart the rows that block finishes and rescues. These are running rows that cannot be put back, and
    /// finished rows with the id of a running job. Returns `false` if there are none.
    pub(super) async fn set_running_apart(&self) -> StorageResult<bool> {
        let gone: Vec<Row> = run!(self, "set_apart", conn => SetRunningApart.load(conn))?;
        let history: Vec<Row> = run!(self, "set_apart", conn => SetFinishedApart.load(conn))?;
        Ok(tell(&gone) | tell(&history))
    }

    /// Sets apart finished rows with the ids of these jobs, which wait or run and do not end because of them.
    pub(super) async fn set_history_apart(&self, ids: &[i64]) -> StorageResult<bool> {
        let gone: Vec<Row> = run!(self, "set_apart", conn => SetHistoryApart { ids }.load(conn))?;
        Ok(tell(&gone))
    }

    /// Called before failed attempts go back, so that the rows that made them fail are set apart first.
    pub(super) async fn clear_for_retries(&self, batch: &[Finish]) -> StorageResult<()> {
        if batch.iter().any(failed_for_history) {
            self.set_running_apart().await?;
        }
        Ok(())
    }

    /// Called after a transaction was rolled back because of a finished row with the same id. Once that row is set
    /// apart, the attempt may succeed at once. If this fails, the next run fails in the same way, and the last run
    /// consumes an attempt.
    pub(super) async fn clear_for_transact(&self, transacted: &Transacted) {
        if matches!(transacted, Transacted::Conflict { what, .. } if *what == HISTORY)
            && let Err(problem) = self.set_running_apart().await
        {
            tracing::warn!(target: "diesel_jobs", { %problem }, "the history of an earlier job with the id of a running one could not be set apart");
        }
    }
}

fn tell(gone: &[Row]) -> bool {
    for (id, kind, reason) in gone {
        tracing::error!(
            target: "diesel_jobs", { job.id = id,
            job.kind = kind,
            reason }, "a job was set apart in jobs.dead_letter; `worker doctor` says what to do");
    }
    !gone.is_empty()
}
