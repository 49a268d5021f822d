//! Jobs of the filled database that pages and commands show.

use anyhow::{Context as _, Result};
use diesel_jobs::operator::{JobFilter, Paging};
use diesel_jobs::{Database, JobId, JobState};

/// One job of each sort.
pub(crate) struct Targets {
    pub(crate) available: JobId,
    pub(crate) scheduled: JobId,
    pub(crate) retrying: JobId,
    pub(crate) running: JobId,
    pub(crate) completed: JobId,
    pub(crate) discarded: JobId,
}

impl Targets {
    pub(crate) async fn find(database: &Database) -> Result<Self> {
        let newest = async |state: JobState| {
            let jobs = database.operator.list(&JobFilter::of_state(state), Paging::newest(1)).await?.jobs;
            jobs.first().map(|job| job.id).with_context(|| format!("the filled database has no job that is {state}"))
        };
        Ok(Self {
            available: newest(JobState::Available).await?,
            scheduled: newest(JobState::Scheduled).await?,
            retrying: newest(JobState::Retrying).await?,
            running: newest(JobState::Running).await?,
            completed: newest(JobState::Completed).await?,
            discarded: newest(JobState::Discarded).await?,
        })
    }
}
