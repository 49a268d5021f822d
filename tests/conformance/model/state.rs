//! The model: the states of a job, in plain Rust, written from the port and the guarantees, and not from any SQL. Verbs
//! that need more than a few lines have a file of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, Keep, Lease, WorkerId, flags};

use super::flow::{Key, Turn};
use super::step::{Flow, LimitKey, User};

/// All that a storage stores about jobs and workers.
#[derive(Default)]
pub(super) struct ModelState {
    /// When the current operation began.
    pub(super) now: DateTime<Utc>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// The registered workers.
    pub(super) workers: BTreeMap<WorkerId, WorkerState>,
    pub(super) paused: BTreeSet<&'static str>,
    pub(super) frozen: bool,
    /// The number of committed effects of transactional handlers.
    pub(super) effects: i64,
    /// The job that has the permit of each sequence.
    pub(super) turns: BTreeMap<&'static str, Turn>,
    /// The tenant of which a job was admitted last, for each limit with tenants.
    pub(super) last_tenants: BTreeMap<LimitKey, &'static str>,
    /// The job that has each unique key, by kind and user.
    pub(super) keys: BTreeMap<(&'static str, User), Key>,
}

/// A worker's last heartbeat, its lease time, and whether it drains.
#[derive(Clone, Copy)]
pub(super) struct WorkerState {
    pub(super) heartbeat_at: DateTime<Utc>,
    pub(super) lease: Duration,
    pub(super) drains: bool,
}

/// A job in any state.
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
    /// The worker that holds it, or held it when it ended.
    pub(super) worker: Option<WorkerId>,
    pub(super) run_at: DateTime<Utc>,
    /// Whether `run_at` is the storage's value, exact to the microsecond. A new value is the model's, until it is
    /// compared with the storage's.
    pub(super) run_at_is_exact: bool,
    /// The storage's value, `None` until it is read.
    pub(super) enqueued_at: Option<DateTime<Utc>>,
    /// When its newest lease began.
    pub(super) claimed_at: Option<DateTime<Utc>>,
    /// When it may be pruned.
    pub(super) expires_at: Option<DateTime<Utc>>,
    pub(super) failures: Vec<Failed>,
    pub(super) flow: Flow,
    /// Whether it waits for admission.
    pub(super) held: bool,
    pub(super) unique: Option<User>,
}

/// A stored failure. `message` is `None` if the storage chooses the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) attempt: u16,
    pub(super) kind: FailureKind,
    pub(super) message: Option<String>,
}

impl Job {
    /// The order of jobs, best first.
    pub(super) fn order(&self, id: JobId) -> (Reverse<i16>, DateTime<Utc>, JobId) {
        (Reverse(self.priority), self.run_at, id)
    }

    /// The state that users see. It says why a job waits.
    pub(super) fn state_at(&self, now: DateTime<Utc>) -> JobState {
        match self.state {
            JobState::Available if self.run_at > now && self.attempt > 0 => JobState::Retrying,
            JobState::Available if self.run_at > now => JobState::Scheduled,
            JobState::Available if self.held => JobState::Held,
            state => state,
        }
    }

    /// Whether it waits for its time or for a worker, and not for admission.
    pub(super) fn waits(&self) -> bool {
        self.state == JobState::Available && !self.held
    }

    /// The flags that the storage gives the job. Its finishes must name them.
    pub(super) fn flags(&self) -> i32 {
        let flow = match self.flow {
            Flow::Free => 0,
            Flow::Limit(..) => flags::LIMITED,
            Flow::Full(..) => flags::LIMITED | flags::ON_FULL,
            Flow::Fair(..) => flags::LIMITED | flags::FAIR,
            Flow::Sequence(..) => flags::LIMITED | flags::SEQUENCE,
        };
        flow | if self.unique.is_some() { flags::UNIQUE } else { 0 }
    }

    /// Makes the job available again. With `None` its `run_at` stays.
    pub(super) fn wait_again(&mut self, run_at: Option<DateTime<Utc>>) {
        self.state = JobState::Available;
        self.worker = None;
        self.expires_at = None;
        if let Some(run_at) = run_at {
            self.run_at = run_at;
            self.run_at_is_exact = false;
        }
    }

    /// Ends the job.
    pub(super) fn end(&mut self, state: JobState, expires_at: Option<DateTime<Utc>>) {
        self.state = state;
        self.held = false;
        self.expires_at = expires_at;
    }

    /// Records a failure of the current attempt with the handler's message.
    pub(super) fn fail(&mut self, Failure { kind, message, .. }: &Failure) {
        self.failures.push(Failed { attempt: self.attempt, kind: *kind, message: Some(message.clone()) });
    }

    /// Records a failure of the current attempt whose message the storage chooses.
    pub(super) fn fail_somehow(&mut self, kind: FailureKind) {
        self.failures.push(Failed { attempt: self.attempt, kind, message: None });
    }
}

impl ModelState {
    /// Returns the job if this lease is current. There is no other access to a running job.
    pub(super) fn held(&mut self, lease: Lease) -> Option<&mut Job> {
        self.jobs.get_mut(&lease.job).filter(|job| {
            job.state == JobState::Running && job.lease == lease.number && job.worker == Some(lease.worker)
        })
    }

    /// Returns the current leases.
    pub(super) fn leases(&self) -> Vec<Lease> {
        let of = |(id, job): (&JobId, &Job)| {
            let worker = job.worker.filter(|_| job.state == JobState::Running)?;
            Some(Lease { job: *id, number: job.lease, worker })
        };
        self.jobs.iter().filter_map(of).collect()
    }

    /// Returns the time at which a job that is kept like this may be pruned.
    pub(super) fn until(&self, keep: Keep) -> Option<DateTime<Utc>> {
        match keep {
            Keep::For(time) => Some(self.now + time),
            Keep::Nothing | Keep::Forever => None,
        }
    }

    /// Whether this worker's lease has ended. `false` if the worker is not registered.
    pub(super) fn is_dead(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|worker_state| worker_state.heartbeat_at + worker_state.lease < self.now)
    }

    /// Returns `false` if the worker is not registered.
    pub(super) fn beat(&mut self, worker: WorkerId, drains: bool) -> bool {
        let Some(worker_state) = self.workers.get_mut(&worker) else { return false };
        worker_state.heartbeat_at = self.now;
        worker_state.drains |= drains;
        true
    }

    /// Lets time pass: all times are moved back.
    pub(super) fn pass(&mut self, time: Duration) {
        for worker_state in self.workers.values_mut() {
            worker_state.heartbeat_at -= time;
        }
        for job in self.jobs.values_mut() {
            job.run_at -= time;
            for at in [&mut job.enqueued_at, &mut job.claimed_at, &mut job.expires_at] {
                *at = at.map(|at| at - time);
            }
        }
    }
}
