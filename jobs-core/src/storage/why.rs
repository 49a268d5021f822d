//! Why a job does not run, or how it ended. The decision is a pure function of what a storage has read.

mod ended;
mod sequence;
mod servers;
mod several;
mod tenants;
mod times;
mod turn;
mod words;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{HaltedSequence, HeldBy, KeyOfJob, KindSettings, Pause, QueueSettings, RowLock, RunningJob, Surroundings};
use crate::failure::FailureKind;
use crate::installation::Freeze;
use crate::job_id::JobId;
use crate::progress::Progress;
use crate::record::{AttemptError, JobRecord, WorkerRecord};
use crate::state::JobState;

/// Why a job does not run, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// There is no such job.
    NoSuchJob {
        /// The highest id of the jobs that are stored.
        highest: Option<JobId>,
    },
    /// The database refused to move it, so it was set apart.
    DeadLetter {
        /// Why.
        why: String,
        /// When.
        at: DateTime<Utc>,
    },
    /// It has ended.
    Ended {
        /// How.
        state: JobState,
        /// When.
        at: Option<DateTime<Utc>>,
        /// The operator who ended it, or the worker.
        by: Option<String>,
        /// The newest failure, if it has not completed.
        error: Option<String>,
        /// How this failure came about.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<FailureKind>,
        /// How many attempts it had.
        attempt: u16,
        /// How many attempts it could have had.
        max_attempts: u16,
    },
    /// It was discarded, and so it halts its sequence: later jobs of it do not start. It may have been deleted since.
    Halts(HaltedSequence),
    /// It runs.
    Running {
        /// The machine and process of its worker. `None`: the worker is not registered any more.
        worker: Option<String>,
        /// Whether the worker is alive.
        alive: bool,
        /// Since when.
        since: Option<DateTime<Utc>>,
        /// What its handler has reported last.
        progress: Option<Progress>,
    },
    /// It uses a feature of a later version of this program.
    NewerVersion,
    /// The database is frozen.
    Frozen {
        /// Who has frozen it, when and why.
        freeze: Freeze,
    },
    /// Its queue is paused.
    QueuePaused {
        /// Who has paused it, when and why.
        pause: Pause,
    },
    /// Its kind is paused.
    KindPaused {
        /// Who has paused it, when and why.
        pause: Pause,
    },
    /// Another session has locked its row.
    Locked(RowLock),
    /// It waits for its time, and has not failed.
    Scheduled {
        /// Its time.
        at: DateTime<Utc>,
    },
    /// It waits for its time after a failed attempt.
    Retrying {
        /// Its time.
        at: DateTime<Utc>,
        /// The newest failure.
        error: Option<String>,
        /// How it came about.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<FailureKind>,
    },
    /// No live worker serves its queue.
    NoWorker {
        /// How many workers are alive.
        alive: usize,
        /// How many of them would serve it, and claim nothing: they drain, or an operator has asked them to be quiet or
        /// to stop.
        quiet: usize,
        /// A queue that a live worker serves, and whose name is nearly the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
    /// Live workers serve its queue, and none of them knows its kind.
    UnknownKind {
        /// How many serve the queue.
        workers: usize,
        /// A kind that one of them knows, and whose name is nearly the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
    /// It was in crashes of its workers, so it runs alone in a worker.
    Quarantined {
        /// How many crashes were counted.
        crashes: u16,
    },
    /// All slots of its queue are taken.
    SlotsBusy {
        /// How many slots the live workers have.
        slots: u64,
        /// Some of the jobs that run there.
        running: Vec<RunningJob>,
    },
    /// The workers that serve its queue have a limit for all their queues together, and it is reached.
    WorkersBusy {
        /// How many slots they have in all.
        slots: u64,
        /// How many workers they are.
        workers: usize,
    },
    /// It is due, and waits for its limit.
    Held(Box<HeldBy>),
    /// Due jobs of its queue come first: of a higher priority, or earlier.
    Behind {
        /// How many, at most 1000.
        jobs: u32,
        /// Whether there are more than that.
        more: bool,
    },
    /// It is due, and the next claim takes it.
    Due,
}

/// A reason in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
    /// What it means, in one sentence.
    pub text: String,
    /// What to do. Empty if there is nothing to do.
    pub advice: String,
}

/// Why a job does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Its kind. `None` if there is no such job.
    pub kind: Option<String>,
    /// Its queue.
    pub queue: Option<String>,
    /// Its state.
    pub state: Option<JobState>,
    /// The reasons, the most important first. There is at least one.
    pub reasons: Vec<Explained>,
    /// The unique key of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<KeyOfJob>,
    /// When the job expires, if its first attempt has not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<DateTime<Utc>>,
}

impl Why {
    /// The same with other texts of failures and of progress, for readers who may not see the original texts.
    #[must_use]
    pub fn redacted(mut self, failure: impl Fn(&str) -> String, message: impl Fn(&str) -> String) -> Self {
        let (id, queue, kind) = (self.id, self.queue.as_deref().unwrap_or(""), self.kind.as_deref().unwrap_or(""));
        for explained in &mut self.reasons {
            let mut reason = explained.reason.clone();
            match &mut reason {
                Reason::Ended { error: Some(error), .. } | Reason::Retrying { error: Some(error), .. } => {
                    *error = failure(error)
                }
                Reason::Running { progress: Some(progress), .. } => progress.message = message(&progress.message),
                _ => continue,
            }
            *explained = words::explain(id, queue, kind, reason);
        }
        self
    }
}

/// What a storage has read.
pub(crate) struct Circumstances {
    pub(crate) around: Surroundings,
    pub(crate) job: Option<(JobRecord, Vec<AttemptError>)>,
    pub(crate) progress: Option<Progress>,
    pub(crate) workers: Vec<WorkerRecord>,
    pub(crate) queues: Vec<QueueSettings>,
    pub(crate) kinds: Vec<KindSettings>,
    pub(crate) unique_key: Option<KeyOfJob>,
}

/// Decides why the job does not run.
pub(crate) fn why(id: JobId, seen: Circumstances) -> Why {
    let Some((job, errors)) = &seen.job else {
        let reason = match seen.around.dead_letter {
            Some((why, at)) => Reason::DeadLetter { why, at },
            None => Reason::NoSuchJob { highest: seen.around.highest },
        };
        let halts = seen.around.halts.map(Reason::Halts);
        let reasons = [reason].into_iter().chain(halts).map(|reason| words::explain(id, "", "", reason)).collect();
        return Why { id, kind: None, queue: None, state: None, reasons, unique_key: None, start_by: None };
    };
    let reasons = match job.state {
        JobState::Running => running(job, &seen),
        state if state.is_finished() => {
            [ended::of(job, errors)].into_iter().chain(seen.around.halts.clone().map(Reason::Halts)).collect()
        }
        _ => waiting(job, errors, &seen),
    };
    let reasons = reasons.into_iter().map(|reason| words::explain(id, &job.queue, &job.kind, reason)).collect();
    let (kind, queue) = (Some(job.kind.clone()), Some(job.queue.clone()));
    let start_by = seen.around.start_by;
    Why { id, kind, queue, state: Some(job.state), reasons, unique_key: seen.unique_key, start_by }
}

fn running(job: &JobRecord, seen: &Circumstances) -> Vec<Reason> {
    let worker = seen.workers.iter().find(|worker| Some(worker.id) == job.worker);
    let running = Reason::Running {
        worker: worker.map(WorkerRecord::process),
        alive: worker.is_some_and(|worker| worker.alive),
        since: job.claimed_at,
        progress: seen.progress.clone(),
    };
    std::iter::once(running).chain(seen.around.lock.clone().map(Reason::Locked)).collect()
}

fn waiting(job: &JobRecord, errors: &[AttemptError], seen: &Circumstances) -> Vec<Reason> {
    let around = &seen.around;
    let mut reasons = Vec::new();
    if !crate::flags::are_known(job.flags) {
        reasons.push(Reason::NewerVersion);
    }
    reasons.extend(around.frozen.clone().map(|freeze| Reason::Frozen { freeze }));
    let queue = seen.queues.iter().find(|queue| queue.name == job.queue);
    reasons.extend(queue.and_then(|queue| queue.paused.clone()).map(|pause| Reason::QueuePaused { pause }));
    let kind = seen.kinds.iter().find(|kind| kind.name == job.kind);
    reasons.extend(kind.and_then(|kind| kind.paused.clone()).map(|pause| Reason::KindPaused { pause }));
    reasons.extend(around.lock.clone().map(Reason::Locked));
    let is_due = job.run_at <= around.now;
    if !is_due {
        let failure = errors.iter().rev().find(|error| !FailureKind::WITHOUT_FAILURE.contains(&error.kind));
        reasons.push(match failure {
            Some(failure) if job.attempt > 0 => {
                let (error, failure) = (Some(failure.message.clone()), Some(failure.kind));
                Reason::Retrying { at: job.run_at, error, failure }
            }
            _ => Reason::Scheduled { at: job.run_at },
        });
    }
    reasons.extend(around.held.clone().map(Box::new).map(Reason::Held));
    let serving = servers::claiming(job, &seen.workers);
    if let Some(missing) = servers::missing(job, &serving, &seen.workers) {
        reasons.push(missing);
    } else if is_due && around.held.is_none() {
        reasons.extend(turn::in_turn(job, &serving, queue.and_then(|queue| queue.slots), around));
    }
    if reasons.is_empty() {
        reasons.push(Reason::Due);
    }
    reasons
}
