//! What the tests do with the storage besides.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::Storage;
use diesel_jobs_core::{AttemptError, JobId, JobRecord, JobState, NewJob};

use super::Memory;
use super::row::Row;
use crate::fixture::{Inspect, Port};

impl Row {
    /// The job as people see it.
    fn seen(&self, now: DateTime<Utc>) -> JobRecord {
        let state = match self.job.state {
            JobState::Available if self.job.run_at > now => {
                if self.job.attempt > 0 {
                    JobState::Retrying
                } else {
                    JobState::Scheduled
                }
            }
            state => state,
        };
        JobRecord { state, ..self.job.clone() }
    }
}

impl Inspect for Memory {
    fn storage(&self) -> &dyn Storage {
        self
    }

    async fn show(&self, id: JobId) -> Option<(JobRecord, Vec<AttemptError>)> {
        let tables = self.tables();
        tables.jobs.get(&id).map(|row| (row.seen(tables.now()), row.errors.clone()))
    }

    async fn now(&self) -> DateTime<Utc> {
        self.tables().now()
    }
}

impl Port for Memory {
    type Database = Self;

    async fn fresh() -> Self {
        Self::default()
    }

    fn database(&self) -> &Self {
        self
    }

    async fn insert(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let mut tables = self.tables();
        let now = tables.now();
        let mut insert = |job| {
            tables.last_id += 1;
            let id = JobId(tables.last_id);
            tables.jobs.insert(id, Row::new(id, job, now));
            id
        };
        jobs.into_iter().map(&mut insert).collect()
    }

    async fn pass(&self, time: Duration) {
        self.tables().passed += TimeDelta::from_std(time).expect("a test passes hours");
    }
}
