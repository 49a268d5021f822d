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
    /// Returns the database that the options, the environment or `.env` name. Fails if none is named, or if the file
    /// that contains its URL cannot be read.
    pub(super) fn chosen(&self) -> Result<&Chosen, CliError> {
        let unset = || url::unset(self.env, self.env_file.as_deref(), Backend::built_in());
        let chosen = self.chosen.as_ref().ok_or_else(unset)?;
        chosen.url().map(|_| chosen)
    }

    /// Returns the URL of [`chosen`](Self::chosen).
    pub(super) fn url(&self) -> Result<&str, CliError> {
        self.chosen()?.url()
    }

    /// Returns the same, or `None` if the URL is not known.
    pub(super) fn url_if_known(&self) -> Option<&str> {
        self.chosen.as_ref().and_then(|chosen| chosen.url().ok())
    }
}
