//! The model: what a job may become, in plain Rust, written from what the port and the guarantees say, not from any SQL.
//! Verbs that take more than a few lines have a file of their own beside this one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, Keep, Lease, WorkerId};

/// All that a storage knows of jobs and workers.
#[derive(Default)]
pub(super) struct Life {
    /// When the verb under way began.
    pub(super) now: DateTime<Utc>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// The list of workers.
    pub(super) workers: BTreeMap<WorkerId, Pulse>,
    pub(super) paused: BTreeSet<&'static str>,
    pub(super) frozen: bool,
    /// What transactional handlers have written and committed.
    pub(super) effects: i64,
}

/// When a worker last showed that it is alive, and for how long that holds.
#[derive(Clone, Copy)]
pub(super) struct Pulse {
    pub(super) heartbeat_at: DateTime<Utc>,
    pub(super) lease: Duration,
}

/// A job, wherever it stands.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) kind: &'static str,
    pub(super) queue: &'static str,
    pub(super) priority: i16,
    pub(super) max_attempts: u16,
    pub(super) args: String,
    pub(super) state: JobState,
    pub(super) attempt: u16,
    pub(super) crashes: u16,
    /// The number of its newest lease.
    pub(super) lease: i32,
    /// Who holds it, or held it when it ended.
    pub(super) worker: Option<WorkerId>,
    pub(super) run_at: DateTime<Utc>,
    /// Whether `run_at` is the storage's own to the microsecond. A new one is the model's until the storage has been asked.
    pub(super) run_at_is_exact: bool,
    /// The storage's own, once it has been asked.
    pub(super) enqueued_at: Option<DateTime<Utc>>,
    /// When its newest lease was granted.
    pub(super) claimed_at: Option<DateTime<Utc>>,
    /// When it may be pruned.
    pub(super) expires_at: Option<DateTime<Utc>>,
    pub(super) failures: Vec<Failed>,
}

/// A failure on record. No message: the storage's words are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) attempt: u16,
    pub(super) kind: FailureKind,
    pub(super) message: Option<String>,
}

impl Job {
    /// Best first.
    pub(super) fn order(&self, id: JobId) -> (Reverse<i16>, DateTime<Utc>, JobId) {
        (Reverse(self.priority), self.run_at, id)
    }

    /// The state as people see it, who are told why a job waits.
    pub(super) fn seen(&self, now: DateTime<Utc>) -> JobState {
        match self.state {
            JobState::Available if self.run_at > now && self.attempt > 0 => JobState::Retrying,
            JobState::Available if self.run_at > now => JobState::Scheduled,
            state => state,
        }
    }

    /// Whether it waits for a worker, whenever.
    pub(super) fn waits(&self) -> bool {
        self.state == JobState::Available
    }

    /// Back among those that wait. `None`: at its old place.
    pub(super) fn wait_again(&mut self, run_at: Option<DateTime<Utc>>) {
        self.state = JobState::Available;
        self.worker = None;
        self.expires_at = None;
        if let Some(run_at) = run_at {
            self.run_at = run_at;
            self.run_at_is_exact = false;
        }
    }

    /// Among those that have ended.
    pub(super) fn end(&mut self, state: JobState, expires_at: Option<DateTime<Utc>>) {
        self.state = state;
        self.expires_at = expires_at;
    }

    /// Records a failure of the present attempt in the words it was told in.
    pub(super) fn fail(&mut self, Failure { kind, message }: &Failure) {
        self.failures.push(Failed { attempt: self.attempt, kind: *kind, message: Some(message.clone()) });
    }

    /// Records a failure of the present attempt that the storage finds words for.
    pub(super) fn fail_somehow(&mut self, kind: FailureKind) {
        self.failures.push(Failed { attempt: self.attempt, kind, message: None });
    }
}

impl Life {
    /// The job under this lease, if it stands: the only way to a job that is running.
    pub(super) fn held(&mut self, lease: Lease) -> Option<&mut Job> {
        self.jobs.get_mut(&lease.job).filter(|job| {
            job.state == JobState::Running && job.lease == lease.number && job.worker == Some(lease.worker)
        })
    }

    /// The leases that stand.
    pub(super) fn leases(&self) -> Vec<Lease> {
        let of = |(id, job): (&JobId, &Job)| {
            let worker = job.worker.filter(|_| job.state == JobState::Running)?;
            Some(Lease { job: *id, number: job.lease, worker })
        };
        self.jobs.iter().filter_map(of).collect()
    }

    /// When what is kept like this may be pruned.
    pub(super) fn until(&self, keep: Keep) -> Option<DateTime<Utc>> {
        match keep {
            Keep::For(time) => Some(self.now + time),
            Keep::Nothing | Keep::Forever => None,
        }
    }

    /// Whether this worker's lease ran out. One that is not on the list is not even dead.
    pub(super) fn is_dead(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|pulse| pulse.heartbeat_at + pulse.lease < self.now)
    }

    /// `false`: it is not on the list.
    pub(super) fn beat(&mut self, worker: WorkerId) -> bool {
        let now = self.now;
        self.workers.get_mut(&worker).map(|pulse| pulse.heartbeat_at = now).is_some()
    }

    /// Time passes: everything that was is longer ago.
    pub(super) fn pass(&mut self, time: Duration) {
        for pulse in self.workers.values_mut() {
            pulse.heartbeat_at -= time;
        }
        for job in self.jobs.values_mut() {
            job.run_at -= time;
            for at in [&mut job.enqueued_at, &mut job.claimed_at, &mut job.expires_at] {
                *at = at.map(|at| at - time);
            }
        }
    }
}
