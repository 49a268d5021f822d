//! Errors of `eyre`, which `anyhow` does not convert.

use super::{FailureKind, IntoJobError, JobError};
use crate::backtraces;

/// Errors of `eyre`.
#[derive(Debug)]
pub enum ByEyre {}

impl IntoJobError<ByEyre> for ::eyre::Report {
    fn into_job_error(self) -> JobError {
        match self.downcast::<JobError>() {
            Ok(error) => error,
            Err(report) => {
                // Only the report's `Debug` has the backtrace.
                let backtrace = backtraces::here().and_then(|_| backtraces::within(&format!("{report:?}")));
                let error = JobError::of_kind(FailureKind::Error, anyhow::Error::from_boxed(report.into()));
                match backtrace {
                    Some(backtrace) => error.with_place(None, Some(backtrace)),
                    None => error,
                }
            }
        }
    }
}
