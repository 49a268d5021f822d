//! A stored output, and the errors of reading it.

use diesel::result::Error as DieselError;
use diesel_jobs_core::JobId;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel_jobs_core::Output;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use serde::de::DeserializeOwned;

diesel_jobs_core::debug_as_display!(OutputError);

/// Why an output could not be read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// There is no such job. It may have been pruned, or its transaction may not have committed.
    #[error("there is no job {0}; it may have been pruned")]
    NoJob(JobId),
    /// The job completed, but its output was not stored. The text says why.
    #[error("job {0} has no stored output: {1}")]
    Refused(JobId, String),
    /// The stored output is not of this type.
    #[error("the stored output of job {0} does not fit its type: {1}")]
    Undecodable(JobId, serde_json::Error),
    /// The database failed.
    #[error("output: {0}")]
    Database(DieselError),
}

impl From<DieselError> for OutputError {
    fn from(error: DieselError) -> Self {
        Self::Database(error)
    }
}

impl From<OutputError> for DieselError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Database(error) => error,
            error => Self::DeserializationError(Box::new(error)),
        }
    }
}

/// The columns `output` and `output_note` of the job, if it exists.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) type Columns = (Option<String>, Option<String>);

/// What these columns mean.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn stored((json, note): Columns) -> Option<Output> {
    json.map(Output::of_json).or_else(|| note.map(Output::refused))
}

/// Reads the output from the columns of the job's row.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn read_output<T: DeserializeOwned>(id: JobId, row: Option<Columns>) -> Result<Option<T>, OutputError> {
    let Some(output) = stored(row.ok_or(OutputError::NoJob(id))?) else { return Ok(None) };
    if let Some(note) = output.note() {
        return Err(OutputError::Refused(id, note.to_owned()));
    }
    output.read().map_err(|error| OutputError::Undecodable(id, error))
}
