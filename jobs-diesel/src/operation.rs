//! What the operations of both databases share: an operation as it is stored, and what a step makes of it. A filter
//! that a later version has stored, or that was changed by hand, may not be readable. Then the operation ends, changes
//! nothing, and says why.

pub(crate) mod record;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::{Action, JobFilter, OperationRecord, STEP, StorageResult, filter_for};

/// Refuses more jobs for a request with a key than one transaction changes.
pub(crate) fn check_number(jobs: usize) -> StorageResult<()> {
    if jobs > STEP {
        return Err(StorageError::Config(format!(
            "{jobs} jobs are too many for a request with a key: it is done in one transaction, of at most {STEP} jobs"
        )));
    }
    Ok(())
}

/// An operation, and its filter as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredOperation {
    pub(crate) record: OperationRecord,
    pub(crate) filter: String,
}

impl StoredOperation {
    /// The action and the filter. The text says why this version cannot do the operation: a row may come from a later
    /// version, or from a person.
    pub(crate) fn read(&self) -> Result<(Action, JobFilter), String> {
        let action = Action::parse(&self.record.action, self.record.argument.as_deref())?;
        let filter: JobFilter =
            JobFilter::from_json(&self.filter).map_err(|problem| format!("its filter cannot be read: {problem}"))?;
        let filter = filter_for(&action, &filter)?;
        Ok((action, filter))
    }
}
