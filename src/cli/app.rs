//! One invocation of the program.

use std::error::Error;
use std::path::PathBuf;
use std::pin::Pin;

use diesel_jobs_core::WorkerBuilder;
use diesel_jobs_storage::Backend;

use super::exit::CliError;
use super::settings::Environment;
use super::url::{self, Chosen};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// The program's own part of building the worker, its type erased.
pub(super) type Setup =
    Box<dyn FnOnce(WorkerBuilder) -> Pin<Box<dyn Future<Output = Result<WorkerBuilder, BoxError>>>>>;

/// One invocation: what every command may need.
pub(super) struct App<'a> {
    pub(super) chosen: Option<Chosen>,
    pub(super) env_file: Option<PathBuf>,
    pub(super) json: bool,
    pub(super) env: Environment<'a>,
    pub(super) setup: Option<Setup>,
}

impl App<'_> {
    /// The database.
    pub(super) fn chosen(&self) -> Result<&Chosen, CliError> {
        self.chosen.as_ref().ok_or_else(|| url::unset(self.env_file.as_deref(), Backend::built_in()))
    }

    /// The database's URL.
    pub(super) fn url(&self) -> Result<&str, CliError> {
        Ok(&self.chosen()?.url)
    }
}
