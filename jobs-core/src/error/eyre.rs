//! Errors of `eyre`, which `anyhow` does not convert.

use super::{FailureKind, IntoJobError, JobError};

/// Errors of `eyre`.
#[derive(Debug)]
pub enum ByEyre {}

impl IntoJobError<ByEyre> for ::eyre::Report {
    fn into_job_error(self) -> JobError {
        match self.downcast::<JobError>() {
            Ok(error) => error,
            Err(report) => JobError::of_kind(FailureKind::Error, anyhow::Error::from_boxed(report.into())),
        }
    }
}
