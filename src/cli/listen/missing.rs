//! `run --listen` in a program that was built without the feature `listen`: it says which feature is missing.

use std::sync::Arc;

use diesel_jobs_core::storage::Operator;
use diesel_jobs_core::{MetricsText, WorkerHandle};

use super::exit::CliError;

/// There is none in this program.
pub(super) enum Answers {}

impl Answers {
    pub(super) fn metrics(&self) -> Arc<MetricsText> {
        match *self {}
    }

    pub(super) fn are_about(&self, _: WorkerHandle) {
        match *self {}
    }

    pub(super) async fn read_gauges(&self, _: Arc<dyn Operator>) {
        match *self {}
    }
}

pub(super) fn start(address: &str) -> Result<Arc<Answers>, CliError> {
    Err(CliError::usage(format!(
        "cannot listen on {address} (--listen, JOBS_LISTEN): this program was built without the HTTP server; add the feature `listen` \
         of `diesel-jobs` to its Cargo.toml"
    )))
}
