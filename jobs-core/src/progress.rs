//! How far running jobs are, as their handlers report it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::Notify;

use crate::failure::{Failure, FailureKind, MAX_FAILURE_BYTES};
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

/// The names of the secret arguments of a kind.
type Secrets = Box<dyn Fn(&str) -> &'static [&'static str] + Send + Sync>;

/// The newest reports that are not stored yet, one for each job.
pub(crate) struct Reports {
    newest: Mutex<HashMap<JobId, Report>>,
    added: Notify,
    secrets: Secrets,
}

struct Report {
    /// Its arguments are needed to remove secret values from the message.
    job: ClaimedJob,
    done: u64,
    total: u64,
    /// Not longer than what is stored.
    message: String,
}

impl Reports {
    /// `secrets` names the secret arguments of a kind.
    pub(crate) fn new(secrets: impl Fn(&str) -> &'static [&'static str] + Send + Sync + 'static) -> Self {
        Self { newest: Mutex::default(), added: Notify::default(), secrets: Box::new(secrets) }
    }

    /// Replaces an earlier report of this job.
    pub(crate) fn add(&self, job: &ClaimedJob, done: u64, total: u64, mut message: String) {
        if message.len() > MAX_FAILURE_BYTES {
            // Before the cut: a part of a secret value could not be found in what is left.
            message = self.as_stored(job, message);
            message.shrink_to_fit();
        }
        match self.lock().entry(job.lease.job) {
            // The job is not copied again. Its arguments may be large, and a handler may report in each round of a
            // loop.
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

    /// Takes all reports.
    pub(crate) fn take(&self) -> Vec<ProgressReport> {
        let newest = std::mem::take(&mut *self.lock());
        let stored = |Report { job, done, total, message }: Report| {
            let message = self.as_stored(&job, message);
            ProgressReport { lease: job.lease, done, total, message }
        };
        newest.into_values().map(stored).collect()
    }

    fn as_stored(&self, job: &ClaimedJob, mut message: String) -> String {
        let names = (self.secrets)(&job.kind);
        if !names.is_empty() {
            secrets::remove_from(&mut message, &job.args, names);
        }
        Failure::new(FailureKind::Error, &message).message
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Report>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestContext;

    fn job(token: &str) -> ClaimedJob {
        TestContext::new("import").args(format!(r#"{{"token":"{token}"}}"#).into_bytes()).build().claimed().clone()
    }

    #[test]
    fn a_long_message_is_cut_when_it_is_reported_and_shows_no_part_of_a_secret() {
        let reports = Reports::new(|_| &["token"]);
        let job = job(&"s3cret".repeat(20));
        for before in (MAX_FAILURE_BYTES - 200)..=MAX_FAILURE_BYTES {
            let message = format!("{}{}{}", "x".repeat(before), "s3cret".repeat(20), "y".repeat(1_000_000));
            reports.add(&job, 1, 2, message);
            let kept = reports.lock().values().map(|report| report.message.capacity()).max();
            assert!(kept.unwrap() <= MAX_FAILURE_BYTES, "{kept:?}");
            let stored = reports.take().remove(0).message;
            assert!(!stored.contains("s3c") && stored.ends_with("… (cut)"), "{before}");
        }
    }
}
