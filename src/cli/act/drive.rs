//! Does an operation step by step, until it has ended or the user interrupts it. Workers may do steps of it meanwhile.

use std::time::{Duration, Instant};

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::{BETWEEN_STEPS, OperationId, OperationRecord, Operator, StorageResult};

use super::super::exit::CliError;
use super::super::progress::Progress;
use super::super::signals::Signals;
use super::interrupt;

/// The pause while another session works on the operation, or the database does not answer.
const AGAIN: Duration = Duration::from_millis(250);
/// After this time without an answer the command gives up.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Does the operation in batches of at most `batch` jobs, until it has ended or the user interrupts the command.
/// Returns it as it is then.
pub(in super::super) async fn drive(
    operator: &dyn Operator,
    id: OperationId,
    batch: usize,
    progress: Progress,
    signals: &mut Signals,
) -> Result<OperationRecord, CliError> {
    let ended = to_its_end(operator, id, batch, &progress, signals).await?;
    drop(progress);
    match ended {
        Some(record) => Ok(record),
        None => existing(operator, id).await,
    }
}

/// The operation, which was there before.
pub(in super::super) async fn existing(operator: &dyn Operator, id: OperationId) -> Result<OperationRecord, CliError> {
    operator.operation(id).await?.ok_or_else(|| deleted(id))
}

fn deleted(id: OperationId) -> CliError {
    CliError::failed(format!("operation {id} has been deleted from the database"))
}

/// Returns the operation when it has ended. `None`: the user has interrupted the command.
async fn to_its_end(
    operator: &dyn Operator,
    id: OperationId,
    batch: usize,
    progress: &Progress,
    signals: &mut Signals,
) -> Result<Option<OperationRecord>, CliError> {
    let mut away: Option<Instant> = None;
    loop {
        let Some((done, is_interrupted)) = interrupt::batch(step(operator, id, batch), progress, signals).await else {
            return Ok(None);
        };
        let pause = match done {
            Ok(Some((record, pause))) => {
                away = None;
                progress.at_record(&record);
                if record.finished_at.is_some() {
                    return Ok(Some(record));
                }
                pause
            }
            Ok(None) => return Err(deleted(id)),
            Err(problem) => {
                let since = *away.get_or_insert_with(Instant::now);
                if !problem.is_transient() || since.elapsed() > GIVE_UP {
                    return Err(given_up(&problem, id));
                }
                AGAIN
            }
        };
        if is_interrupted || interrupt::pause(pause, signals).await {
            return Ok(None);
        }
    }
}

/// Does a step. Returns the operation, and the pause until the next step.
async fn step(
    operator: &dyn Operator,
    id: OperationId,
    batch: usize,
) -> StorageResult<Option<(OperationRecord, Duration)>> {
    if let Some(record) = operator.step_operation(Some(id), batch).await? {
        return Ok(Some((record, BETWEEN_STEPS)));
    }
    // It has ended, or another session does a step of it.
    Ok(operator.operation(id).await?.map(|record| (record, AGAIN)))
}

fn given_up(problem: &StorageError, id: OperationId) -> CliError {
    CliError::new(problem.into(), format!("{problem}. {}", advice(id)))
}

/// What happens to an operation that is not done.
pub(in super::super) fn advice(id: OperationId) -> String {
    format!(
        "Operation {id} is not done: workers continue it. `worker operations resume {id}` continues it here, and \
         `worker operations cancel {id}` ends it"
    )
}
