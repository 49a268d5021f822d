//! The steps that may be taken on a storage. They name workers, jobs and leases by their position. So any sequence can
//! be run, also one from which steps were removed.

use std::time::Duration;

use chrono::SubsecRound as _;
use diesel_jobs_core::{Keep, NewJob, RunAt, Transition};

use crate::bench::{cancel, discard, retry_in};

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue(New),
    EnqueueAll(Vec<New>),
    Claim(Ask),
    ClaimQuarantined(Ask),
    /// Finishes several attempts in one batch.
    Finish(Vec<(Pick, End)>),
    /// A transactional handler, on one of the available connections. With `None` it fails.
    Transact(Pick, usize, Option<End>),
    /// A completion in a transaction of the application, which commits if the flag is set.
    CompleteIn(Pick, bool),
    /// So many minutes pass.
    Pass(u64),
    /// The worker's last heartbeat becomes very old, and another worker starts in its place.
    Die(Who),
    /// The worker deregisters and does not give its jobs back. Another worker starts in its place.
    Leave(Who),
    /// The worker registers again, as if the reply had been lost.
    Register(Who),
    Beat(Who),
    Rescue(u16, bool),
    Cancel(usize),
    Retry(usize),
    Pause(&'static str, bool),
    Freeze,
    Thaw,
    /// Cancels everything that waits or runs.
    CancelAll,
    Prune(usize),
    /// Everything that the storage returns is compared.
    Compare,
}

/// A job to enqueue.
#[derive(Clone, Debug)]
pub(super) struct New {
    pub(super) queue: &'static str,
    pub(super) kind: &'static str,
    pub(super) priority: i16,
    pub(super) when: When,
    pub(super) max_attempts: u16,
    /// Whether its arguments are large.
    pub(super) large: bool,
}

/// When a job is due, in minutes.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Now,
    In(u64),
    /// A time relative to now, which may be in the past.
    At(i64),
}

/// A claim.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) who: Who,
    /// For each queue, the free slots and the number of jobs to prefetch.
    pub(super) wanted: Vec<(&'static str, usize, usize)>,
    pub(super) kinds: &'static [&'static str],
    pub(super) max_crashes: u16,
    pub(super) bypass_limit: bool,
}

/// A worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// One of the working ones.
    At(usize),
    /// The one that died or left last.
    Former,
    /// One that never registered.
    Stranger,
}

/// A lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    /// A current one.
    Standing(usize),
    /// Any lease that was ever assigned, the newest first.
    Granted(usize),
    /// A current one with another lease number.
    Renumbered(usize, i32),
    /// A current one with another worker.
    Stolen(usize, Who),
    /// A current one with the next job.
    Misplaced(usize),
}

/// How an attempt ends. Delays are in minutes.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Complete(Keep),
    Retry(u64),
    Snooze(u64),
    Release,
    Cancel(Keep),
    Discard(Keep),
}

pub(super) const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

impl New {
    pub(super) fn job(&self, number: usize) -> NewJob {
        let filling = if self.large { "x".repeat(60_000) } else { String::new() };
        let mut job = NewJob::raw(self.kind, format!("{{\"number\":{number},\"filling\":\"{filling}\"}}"));
        job.queue = self.queue.into();
        job.priority = self.priority;
        job.max_attempts = self.max_attempts;
        job.run_at = match self.when {
            When::Now => RunAt::Now,
            When::In(delay) => RunAt::After(minutes(delay)),
            // SQLite's clock has milliseconds. Without the truncation, a time of now could be a fraction of a
            // millisecond ahead of it.
            When::At(delay) => RunAt::At(chrono::Utc::now().trunc_subsecs(3) + chrono::TimeDelta::minutes(delay)),
        };
        job
    }

    /// Returns the delay before it is due. It is never negative.
    pub(super) fn delay(&self) -> Duration {
        match self.when {
            When::Now => Duration::ZERO,
            When::In(delay) => minutes(delay),
            When::At(delay) => minutes(delay.try_into().unwrap_or(0)),
        }
    }
}

impl End {
    pub(super) fn transition(self) -> Transition {
        match self {
            Self::Complete(keep) => Transition::Complete(keep),
            Self::Retry(delay) => retry_in(minutes(delay)),
            Self::Snooze(delay) => Transition::Snooze(minutes(delay)),
            Self::Release => Transition::Release,
            Self::Cancel(keep) => match cancel() {
                Transition::Cancel { reason, .. } => Transition::Cancel { reason, keep },
                other => other,
            },
            Self::Discard(keep) => match discard() {
                Transition::Discard { failure, .. } => Transition::Discard { failure, keep },
                other => other,
            },
        }
    }
}
