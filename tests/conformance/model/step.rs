//! What may happen to a storage. Steps name workers, jobs and leases by their place, so that any sequence of steps can be
//! played, also one from which others were taken away.

use std::time::Duration;

use chrono::SubsecRound as _;
use diesel_jobs_core::{Keep, NewJob, RunAt, Transition};

use crate::bench::{cancel, discard, retry_in};

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue(New),
    EnqueueAll(Vec<New>),
    Claim(Ask),
    ClaimQuarantined(Ask),
    /// In one batch.
    Finish(Vec<(Pick, End)>),
    /// A transactional handler on one of the connections there are; `None`: it fails.
    Transact(Pick, usize, Option<End>),
    /// A completion in a transaction of the application, which commits or does not.
    CompleteIn(Pick, bool),
    /// Minutes.
    Pass(u64),
    /// It has not been heard of for long, and another one starts in its place.
    Die(Who),
    /// It takes itself off the list without a thought for its jobs, and another one starts in its place.
    Leave(Who),
    /// Once more: the answer was lost.
    Register(Who),
    Beat(Who),
    Rescue(u16, bool),
    Cancel(usize),
    Retry(usize),
    Pause(&'static str, bool),
    Freeze,
    Thaw,
    /// Everything that waits or runs.
    CancelAll,
    Prune(usize),
    /// Everything that can be seen is looked at.
    Look,
}

/// A job to enqueue.
#[derive(Clone, Debug)]
pub(super) struct New {
    pub(super) queue: &'static str,
    pub(super) kind: &'static str,
    pub(super) priority: i16,
    pub(super) when: When,
    pub(super) max_attempts: u16,
    /// Whether its arguments are.
    pub(super) large: bool,
}

/// When it shall start; minutes.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Now,
    In(u64),
    /// From now, or ago.
    At(i64),
}

/// A claim.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) who: Who,
    /// Queue, slots, prefetch.
    pub(super) wanted: Vec<(&'static str, usize, usize)>,
    pub(super) kinds: &'static [&'static str],
    pub(super) max_crashes: u16,
    pub(super) bypass_limit: bool,
}

/// A worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// One of those that work.
    At(usize),
    /// The newest that died or left.
    Former,
    /// One that never registered.
    Stranger,
}

/// A lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    /// One that stands.
    Standing(usize),
    /// Any that was ever granted, the newest first.
    Granted(usize),
    /// One that stands, with another number.
    Renumbered(usize, i32),
    /// One that stands, of another worker.
    Stolen(usize, Who),
    /// One that stands, of the next job.
    Misplaced(usize),
}

/// How an attempt ends; minutes.
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
            // SQLite's clock has milliseconds: a moment ago would be ahead of it by a part of one.
            When::At(delay) => RunAt::At(chrono::Utc::now().trunc_subsecs(3) + chrono::TimeDelta::minutes(delay)),
        };
        job
    }

    /// How far ahead it starts: never in the past.
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
