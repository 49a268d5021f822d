//! How far running jobs are, as their handlers report it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::Notify;

use crate::error::{Failure, FailureKind};
use crate::job_id::JobId;
use crate::lease::{ClaimedJob, Lease};
use crate::secrets;

/// How far a job is, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// Of how much.
    pub total: u64,
    /// What the handler said.
    pub message: String,
    /// When it was stored, by the database's clock.
    pub at: DateTime<Utc>,
}

/// A report of a running job, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressReport {
    /// The lease. If the job was claimed again since, the report is not stored.
    pub lease: Lease,
    /// How much is done.
    pub done: u64,
    /// Of how much.
    pub total: u64,
    /// What the handler said. It fits into the database, and contains no values of secret arguments.
    pub message: String,
}

/// The newest reports that are not stored yet, one for each job.
#[derive(Default)]
pub(crate) struct Reports {
    newest: Mutex<HashMap<JobId, Report>>,
    added: Notify,
}

struct Report {
    /// Its arguments are needed to remove secret values from the message.
    job: ClaimedJob,
    done: u64,
    total: u64,
    message: String,
}

impl Reports {
    /// Replaces an earlier report of this job.
    pub(crate) fn add(&self, job: &ClaimedJob, done: u64, total: u64, message: String) {
        match self.lock().entry(job.lease.job) {
            // The job is not copied again. Its arguments may be large, and a handler may report in each round of a loop.
            Entry::Occupied(mut newest) if newest.get().job.lease == job.lease => {
                let newest = newest.get_mut();
                (newest.done, newest.total, newest.message) = (done, total, message);
            }
            other => drop(other.insert_entry(Report { job: job.clone(), done, total, message })),
        }
        self.added.notify_one();
    }

    /// Waits for a report.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// Whether no report waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes all reports. `secrets` names the secret arguments of a kind.
    pub(crate) fn take(&self, secrets: impl Fn(&str) -> &'static [&'static str]) -> Vec<ProgressReport> {
        let newest = std::mem::take(&mut *self.lock());
        let stored = |Report { job, done, total, mut message }: Report| {
            let names = secrets(&job.kind);
            if !names.is_empty() {
                secrets::remove_from(&mut message, &job.args, names);
            }
            let message = Failure::new(FailureKind::Error, &message).message;
            ProgressReport { lease: job.lease, done, total, message }
        };
        newest.into_values().map(stored).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Report>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
