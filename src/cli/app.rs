//! The settings of one run of the program.

use std::error::Error;
use std::path::PathBuf;
use std::pin::Pin;

use diesel_jobs_core::WorkerBuilder;
use diesel_jobs_storage::Backend;

use super::exit::CliError;
use super::settings::Environment;
use super::url::{self, Chosen};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// The program's set-up function, as a boxed closure.
pub(super) type Setup =
    Box<dyn FnOnce(WorkerBuilder) -> Pin<Box<dyn Future<Output = Result<WorkerBuilder, BoxError>>>>>;

/// What commands need: the parsed global options, the environment and the set-up function.
pub(super) struct App<'a> {
    pub(super) chosen: Option<Chosen>,
    pub(super) env_file: Option<PathBuf>,
    pub(super) json: bool,
    pub(super) env: Environment<'a>,
    pub(super) setup: Option<Setup>,
}

impl App<'_> {
    /// Returns the database that the options, the environment or `.env` name. Fails if none is named.
    pub(super) fn chosen(&self) -> Result<&Chosen, CliError> {
        self.chosen.as_ref().ok_or_else(|| url::unset(self.env_file.as_deref(), Backend::built_in()))
    }

    /// Returns the URL of [`chosen`](Self::chosen).
    pub(super) fn url(&self) -> Result<&str, CliError> {
        Ok(&self.chosen()?.url)
    }
}
