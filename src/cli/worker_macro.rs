//! What [`diesel_jobs::worker!`](crate::worker) calls. The version is that of the package in which the macro is called.

use std::process::ExitCode;

use diesel_jobs_core::WorkerBuilder;

use super::app::{BoxError, boxed};
use super::start;

/// The `main` of a worker.
pub fn main_of(version: Option<&'static str>) -> ExitCode {
    start(version, None)
}

/// The `main` of a worker with a set-up function.
pub fn main_of_with<S, E>(version: Option<&'static str>, setup: S) -> ExitCode
where
    S: AsyncFnOnce(WorkerBuilder) -> Result<WorkerBuilder, E> + 'static,
    E: Into<BoxError>,
{
    start(version, Some(boxed(setup)))
}
