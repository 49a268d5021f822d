//! How many jobs there are: what is read at once, and what a worker has counted some time ago.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::job_id::JobId;
use crate::lease::WorkerId;

/// Up to this depth the jobs of a queue are counted, if there are at most ten queues. With more queues the limit is
/// lower, so that the sum is at most about a hundred thousand jobs. Each queue is counted up to a hundred.
pub const COUNTED_DEPTH: i64 = 10_000;

/// How many jobs wait, as far as that can be counted quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// The number of jobs. If it is not exact, at least this many were there, or as many as were counted last.
    pub jobs: i64,
    /// Whether the jobs were counted now. If not, the number is an estimate.
    pub is_exact: bool,
}

impl Depth {
    /// `counted` jobs were found, and no more than `limit` were counted. `sampled` is how many there were at the last
    /// count of all jobs.
    pub fn new(counted: i64, limit: i64, sampled: i64) -> Self {
        if counted < limit {
            return Self { jobs: counted, is_exact: true };
        }
        Self { jobs: counted.max(sampled), is_exact: false }
    }
}

impl std::ops::Add for Depth {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { jobs: self.jobs + other.jobs, is_exact: self.is_exact && other.is_exact }
    }
}

impl std::fmt::Display for Depth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { jobs, is_exact } = self;
        if *is_exact { write!(f, "{jobs}") } else { write!(f, "{jobs}+") }
    }
}

/// The jobs of one queue that wait or run now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// Jobs that are due.
    pub available: Depth,
    /// Jobs that are due later: scheduled and retrying ones.
    pub later: Depth,
    /// Jobs under a lease.
    pub running: i64,
    /// How long the oldest due job has waited, in seconds.
    pub oldest_wait_seconds: Option<f64>,
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

/// What `stats` reads of one queue.
#[derive(Clone, Debug)]
pub struct QueueCount {
    /// The queue.
    pub queue: String,
    /// Due jobs, at most `limit`.
    pub available: i64,
    /// Later jobs, at most `limit`.
    pub later: i64,
    /// No more jobs than this were counted.
    pub limit: i64,
    /// How long the oldest due job has waited, in seconds.
    pub oldest_wait_seconds: Option<f64>,
}

impl Stats {
    /// Puts together what was read. `running` has the queue and the number of its running jobs. `counted_now` is there if
    /// all jobs were counted.
    pub fn new(
        queues: Vec<QueueCount>,
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
        let mut stats: Vec<QueueStats> = queues
            .into_iter()
            .map(|count| QueueStats {
                available: Depth::new(count.available, count.limit, sum(&count.queue, |kind| kind.available)),
                later: Depth::new(count.later, count.limit, sum(&count.queue, |kind| kind.scheduled + kind.retrying)),
                running: 0,
                oldest_wait_seconds: count.oldest_wait_seconds,
                queue: count.queue,
            })
            .collect();
        let none = Depth { jobs: 0, is_exact: true };
        for (name, running) in running {
            match stats.iter_mut().find(|queue| queue.queue == *name) {
                Some(queue) => queue.running += running,
                None => stats.push(QueueStats {
                    queue: name.clone(),
                    available: none,
                    later: none,
                    running: *running,
                    oldest_wait_seconds: None,
                }),
            }
        }
        stats.sort_by(|one, other| one.queue.cmp(&other.queue));
        Self { queues: stats, kinds, counted }
    }

    /// How many jobs wait or run. It is not exact if a queue has too many jobs to count them.
    pub fn unfinished(&self) -> Depth {
        let depths = self.queues.iter().flat_map(|queue| [queue.available, queue.later]);
        let running: i64 = self.queues.iter().map(|queue| queue.running).sum();
        depths.fold(Depth { jobs: running, is_exact: true }, |sum, depth| sum + depth)
    }
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
mod tests {
    use super::*;

    fn queue(name: &str, available: i64) -> QueueCount {
        QueueCount { queue: name.into(), available, later: 2, limit: 10, oldest_wait_seconds: Some(1.0) }
    }

    fn sampled(available: i64) -> Sample {
        let kinds = vec![KindStats { queue: "q".into(), kind: "k".into(), available, ..KindStats::default() }];
        Sample { at: Some(Utc::now()), age_seconds: Some(7.0), took_seconds: 1.0, resting: None, kinds }
    }

    #[test]
    fn a_depth_is_exact_below_the_limit_and_an_estimate_from_it_on() {
        let depth = |counted, sample| Stats::new(vec![queue("q", counted)], &[], None, sample).queues[0].available;
        assert_eq!(depth(9, Some(sampled(50))), Depth { jobs: 9, is_exact: true });
        assert_eq!(depth(10, Some(sampled(50))), Depth { jobs: 50, is_exact: false });
        assert_eq!(depth(10, Some(sampled(3))).to_string(), "10+", "the sample is older than the count");
        assert_eq!(depth(10, None).to_string(), "10+");
    }

    #[test]
    fn queues_that_only_run_are_listed_and_everything_is_added() {
        let stats = Stats::new(vec![queue("q", 3)], &[("a".into(), 2), ("q".into(), 1)], Some(Vec::new()), None);
        let names: Vec<&str> = stats.queues.iter().map(|queue| queue.queue.as_str()).collect();
        assert_eq!((names, stats.queues[0].running, stats.queues[1].running), (vec!["a", "q"], 2, 1));
        assert_eq!((stats.unfinished(), stats.counted.now), (Depth { jobs: 8, is_exact: true }, true));
        assert!(!Stats::new(vec![queue("q", 10)], &[], None, None).unfinished().is_exact);
    }
}
