//! How many jobs there are: what is read at once, and what a worker has counted some time ago.

mod depth;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::job_id::JobId;
use crate::lease::WorkerId;
pub use depth::Depth;

/// Up to this depth the jobs of a queue are counted, if there are at most five queues. With more queues the limit is
/// lower, so that the sum is at most about a hundred thousand jobs. Each queue is counted up to a hundred.
pub const COUNTED_DEPTH: i64 = 10_000;

/// If the last count of all jobs is older than this, it does not say which queues are long.
const RECENT_SECONDS: f64 = 1800.0;

/// The jobs of one queue that wait or run now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// Jobs that are due.
    pub available: Depth,
    /// Jobs that are due later: scheduled and retrying ones.
    pub later: Depth,
    /// Jobs that are due and wait for their limits.
    pub held: Depth,
    /// Jobs under a lease.
    pub running: i64,
    /// How long the oldest due job has waited, in seconds.
    pub oldest_wait_seconds: Option<f64>,
    /// The oldest due job.
    pub oldest: Option<JobId>,
}

impl QueueStats {
    /// A queue without jobs.
    pub fn empty(queue: impl Into<String>) -> Self {
        let none = Depth { jobs: 0, is_exact: true };
        let queue = queue.into();
        Self { queue, available: none, later: none, held: none, running: 0, oldest_wait_seconds: None, oldest: None }
    }

    /// All jobs that wait.
    pub fn waiting(&self) -> Depth {
        self.available + self.later + self.held
    }
}

/// How many jobs of one queue and kind are in each state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindStats {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Waiting and due.
    pub available: i64,
    /// Waiting for their time, without a failed attempt.
    pub scheduled: i64,
    /// Waiting for their time after a failed attempt.
    pub retrying: i64,
    /// Due, and waiting for their limits.
    #[serde(default)]
    pub held: i64,
    /// Under a lease.
    pub running: i64,
    /// Completed and still kept.
    pub completed: i64,
    /// Cancelled and still kept.
    pub cancelled: i64,
    /// Discarded and still kept.
    pub discarded: i64,
    /// How long the oldest due job had waited when the jobs were counted, in seconds.
    pub oldest_wait_seconds: Option<f64>,
}

impl KindStats {
    /// Adds jobs of another kind or queue.
    pub fn add(&mut self, other: &Self) {
        self.available += other.available;
        self.scheduled += other.scheduled;
        self.retrying += other.retrying;
        self.held += other.held;
        self.running += other.running;
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.discarded += other.discarded;
        let waits = self.oldest_wait_seconds.into_iter().chain(other.oldest_wait_seconds);
        self.oldest_wait_seconds = waits.reduce(f64::max);
    }
}

/// The last count of all jobs, which one of the workers has made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// When the count ended. `None` if no worker has counted yet.
    pub at: Option<DateTime<Utc>>,
    /// How long ago that was, in seconds, by the database's clock.
    pub age_seconds: Option<f64>,
    /// How long the count took, in seconds.
    pub took_seconds: f64,
    /// Why no newer count is made at the moment.
    pub resting: Option<String>,
    /// The counts.
    pub kinds: Vec<KindStats>,
}

/// How many jobs there are.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// The jobs that wait or run, by queue. They are read at once. Queues without such jobs are left out.
    pub queues: Vec<QueueStats>,
    /// All jobs, by queue and kind. `counted` says when they were counted.
    pub kinds: Vec<KindStats>,
    /// When the kinds were counted.
    pub counted: Counted,
}

/// When the jobs of a [`Stats`] were counted by kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counted {
    /// They were counted now, because there are few of them.
    pub now: bool,
    /// How long ago they were counted, in seconds. `None` if no worker has counted them yet, and there are too many to
    /// count them now. Then there are no kinds.
    pub age_seconds: Option<f64>,
    /// Why no newer count is made at the moment.
    pub resting: Option<String>,
}

/// Jobs that were counted up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedTo {
    /// How many there are, at most `limit`.
    pub jobs: i64,
    /// No more jobs than this were counted.
    pub limit: i64,
}

/// What `stats` reads of one queue. Jobs that wait for their limits are in [`HeldCounts`].
#[derive(Clone, Debug)]
pub struct QueueCount {
    /// The queue.
    pub queue: String,
    /// Due jobs.
    pub available: CountedTo,
    /// Later jobs.
    pub later: CountedTo,
    /// How long the oldest due job has waited, in seconds.
    pub oldest_wait_seconds: Option<f64>,
    /// That job.
    pub oldest: Option<JobId>,
}

/// What `stats` reads of the jobs that wait for their limits, or will do so later.
#[derive(Clone, Debug, Default)]
pub struct HeldCounts {
    /// The queue, how many of its jobs are due, and how many are due later.
    pub queues: Vec<(String, i64, i64)>,
    /// Whether all of them were counted.
    pub is_whole: bool,
}

/// The queues that were long at the last count of all jobs. Counting them again would take long, and the answer would
/// not be exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongQueues {
    /// With more than [`COUNTED_DEPTH`] due jobs.
    pub available: Vec<String>,
    /// With more than [`COUNTED_DEPTH`] later jobs.
    pub later: Vec<String>,
}

impl LongQueues {
    /// The long queues of the last count. None if it is too old.
    pub fn of(sample: Option<&Sample>) -> Self {
        let Some(sample) = sample.filter(|sample| sample.age_seconds.is_some_and(|age| age <= RECENT_SECONDS)) else {
            return Self::default();
        };
        let mut depths: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for kind in &sample.kinds {
            let depth = depths.entry(&kind.queue).or_default();
            *depth = (depth.0 + kind.available, depth.1 + kind.scheduled + kind.retrying);
        }
        let long = |part: fn(&(i64, i64)) -> i64| {
            let long = depths.iter().filter(|(_, depth)| part(depth) > COUNTED_DEPTH);
            long.map(|(queue, _)| (*queue).to_owned()).collect()
        };
        Self { available: long(|depth| depth.0), later: long(|depth| depth.1) }
    }
}

impl Stats {
    /// Puts together what was read. `running` has the queue and the number of its running jobs. `counted_now` is there
    /// if all jobs were counted.
    pub fn new(
        queues: Vec<QueueCount>,
        held: &HeldCounts,
        running: &[(String, i64)],
        counted_now: Option<Vec<KindStats>>,
        sample: Option<Sample>,
    ) -> Self {
        let (kinds, counted) = match (counted_now, sample) {
            (Some(kinds), _) => (kinds, Counted { now: true, age_seconds: Some(0.0), resting: None }),
            (None, Some(Sample { age_seconds, resting, kinds, .. })) => {
                (kinds, Counted { now: false, age_seconds, resting })
            }
            (None, None) => (Vec::new(), Counted { now: false, age_seconds: None, resting: None }),
        };
        let sum = |queue: &str, part: fn(&KindStats) -> i64| {
            kinds.iter().filter(|kind| kind.queue == queue).map(part).sum::<i64>()
        };
        let mut counts: BTreeMap<String, QueueCount> =
            queues.into_iter().map(|count| (count.queue.clone(), count)).collect();
        let mut others = |queue: &str| {
            let all = CountedTo { jobs: 0, limit: i64::MAX };
            let count = || QueueCount {
                queue: queue.to_owned(),
                available: all,
                later: all,
                oldest_wait_seconds: None,
                oldest: None,
            };
            counts.entry(queue.to_owned()).or_insert_with(count);
        };
        held.queues.iter().for_each(|(queue, ..)| others(queue));
        running.iter().for_each(|(queue, _)| others(queue));
        if !held.is_whole {
            kinds.iter().filter(|kind| kind.held > 0).for_each(|kind| others(&kind.queue));
        }
        let stats = |QueueCount { queue, available, later, oldest_wait_seconds, oldest }: QueueCount| {
            let (due, due_later) =
                held.queues.iter().filter(|(of, ..)| *of == queue).fold((0, 0), |sum, of| (sum.0 + of.1, sum.1 + of.2));
            let sampled_later = sum(&queue, |kind| kind.scheduled + kind.retrying);
            QueueStats {
                available: Depth::new(available.jobs, available.limit, sum(&queue, |kind| kind.available)),
                later: Depth::known(later.jobs + due_later, held.is_whole && later.jobs < later.limit, sampled_later),
                held: Depth::known(due, held.is_whole, sum(&queue, |kind| kind.held)),
                running: running.iter().filter(|(of, _)| *of == queue).map(|(_, jobs)| jobs).sum(),
                oldest_wait_seconds,
                oldest,
                queue,
            }
        };
        let stats: Vec<QueueStats> = counts.into_values().map(stats).collect();
        Self { queues: stats, kinds, counted }
    }

    /// How many jobs wait or run. It is not exact if a queue has too many jobs to count them.
    pub fn unfinished(&self) -> Depth {
        let depths = self.queues.iter().map(QueueStats::waiting);
        let running: i64 = self.queues.iter().map(|queue| queue.running).sum();
        depths.fold(Depth { jobs: running, is_exact: true }, |sum, depth| sum + depth)
    }
}

/// Rows that are deleted and still in the tables, and what keeps them there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeadRows {
    /// Dead rows of waiting and ended jobs, as the server has counted them.
    pub rows: i64,
    /// The age of the oldest snapshot or open transaction, in seconds.
    pub snapshot_seconds: f64,
}

/// A job that is under a lease now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeasedJob {
    /// The id.
    pub id: JobId,
    /// The kind.
    pub kind: String,
    /// The queue.
    pub queue: String,
    /// The attempt, from 1.
    pub attempt: u16,
    /// The worker that holds the lease.
    pub worker: WorkerId,
    /// When it was claimed.
    pub since: DateTime<Utc>,
    /// How long ago that was, in seconds, by the database's clock.
    pub seconds: f64,
}

#[cfg(test)]
mod tests;
