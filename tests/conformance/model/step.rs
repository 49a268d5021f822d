//! The steps that may be taken on a storage. They name workers, jobs and leases by their position. So any sequence can
//! be run, even one from which steps were removed.

use std::time::Duration;

use chrono::SubsecRound as _;
use diesel_jobs_core::{
    Keep, Limit, NewJob, OnConflict, OnDiscard, OnFull, Replace, RunAt, Sequence, Transition, Unique, Until,
};

use crate::bench::{cancel, discard, retry_in};

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue(New),
    EnqueueAll(Vec<New>),
    /// An enqueue in a transaction that is rolled back.
    RolledBack(Vec<New>),
    /// Passes of admission, until there is nothing more to do.
    Admit,
    /// The same, and then the end of jobs that do not wait although their limit is full.
    EndFull,
    Claim(Ask),
    ClaimQuarantined(Ask),
    /// Finishes several attempts in one batch.
    Finish(Vec<(Pick, End)>),
    /// The same between passes of admission. It may pass permits on, and claim the jobs that get them.
    FinishAndPassOn(Vec<(Pick, End)>, Option<Ask>),
    /// A transactional handler of one job or of a batch, on one of the available connections. Without the flag it
    /// fails.
    Transact(Vec<(Pick, End)>, usize, bool),
    /// A completion in a transaction of the application, which commits if the flag is set.
    CompleteIn(Pick, bool),
    /// This many minutes pass.
    Pass(u64),
    /// The worker's last heartbeat becomes very old, and another worker starts in its place.
    Die(Who),
    /// The worker deregisters and does not give its jobs back. Another worker starts in its place.
    Leave(Who),
    /// The worker registers again, as if the reply had been lost.
    Register(Who),
    Beat(Who),
    /// A heartbeat that says that the worker drains.
    Drain(Who),
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
    pub(super) flow: Flow,
    pub(super) unique: Option<User>,
}

/// Whether a job waits for others. The letter is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Free,
    /// This many at once.
    Limit(&'static str, u32),
    /// The same, and what happens with a job that finds this limit full.
    Full(&'static str, u32, OnFull),
    /// The same, and the tenant of the job.
    Fair(&'static str, u32, &'static str),
    /// One after the other. The flag says whether a discarded job halts the others.
    Sequence(&'static str, bool),
}

/// The name and the key of a limit, and how many jobs may run at once.
pub(super) type LimitKey = (&'static str, &'static str, u32);

impl Flow {
    /// The limit. `None` for a sequence.
    pub(super) const fn limit(self) -> Option<LimitKey> {
        match self {
            Self::Limit(key, most) => Some(("limit", key, most)),
            Self::Full(key, most, OnFull::Discard) => Some(("discards", key, most)),
            Self::Full(key, most, _) => Some(("cancels", key, most)),
            Self::Fair(key, most, _) => Some(("fair", key, most)),
            Self::Free | Self::Sequence(..) => None,
        }
    }

    /// The limit, the sequence or the tenant of a new job.
    fn of(self, job: NewJob) -> NewJob {
        let limit = self.limit().map(|(name, key, most)| Limit::new(name, most).key(key));
        match (self, limit) {
            (Self::Sequence(key, halts), _) => {
                let on_discard = if halts { OnDiscard::Halt } else { OnDiscard::Skip };
                job.rule(Sequence::new("sequence").key(key).on_discard(on_discard)).unwrap()
            }
            (Self::Full(_, _, rule), Some(limit)) => job.rule(limit.on_full(rule)).unwrap(),
            (Self::Fair(_, _, tenant), Some(limit)) => job.rule(limit.fair_by(tenant)).unwrap(),
            (_, Some(limit)) => job.rule(limit).unwrap(),
            (_, None) => job,
        }
    }
}

/// A unique key. All jobs with the same key have the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum User {
    /// The job that is there stays as it is, until it has ended.
    Kept,
    /// The job that is there stays as it is, until it has started.
    Started,
    /// The job that is there gets the arguments, the time and the priority, while it waits, until it has ended.
    Replaced,
}

impl User {
    pub(super) const ALL: [Self; 3] = [Self::Kept, Self::Started, Self::Replaced];

    fn rule(self) -> Unique {
        let rule = Unique::new().by(&["user"]);
        match self {
            Self::Kept => rule,
            Self::Started => rule.until(Until::Started),
            Self::Replaced => rule.on_conflict(OnConflict::Replace(Replace::new().args().run_at().priority())),
        }
    }
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
        let args = format!("{{\"number\":{number},\"user\":\"{:?}\",\"filling\":\"{filling}\"}}", self.unique);
        let mut job = NewJob::raw(self.kind, args);
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
        let job = self.flow.of(job);
        match self.unique {
            Some(user) => job.unique(user.rule()).unwrap(),
            None => job,
        }
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
