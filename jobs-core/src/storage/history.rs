//! The history of the work and the numbers of jobs: what workers write, and what people read.

use std::time::Duration;

use async_trait::async_trait;

use super::StorageResult;
use crate::history::{KindRate, Point, QueueRates, WorkFilter};
use crate::job_event::{Events, EventsSince};
use crate::stats::{DeadRows, LeasedJob, Sample, Stats};

/// What people read about the work. Every operation is quick, however many jobs there are.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// How many jobs there are. Queues are counted now, up to a limit. Kinds are counted now while there are few jobs,
    /// and otherwise come from the last [`sample`](Self::sample).
    async fn stats(&self) -> StorageResult<Stats>;

    /// The last count of all jobs that a worker has made. `None` if there was none yet.
    async fn sample(&self) -> StorageResult<Option<Sample>>;

    /// Dead rows of the queue's tables. `None` if the database has none: SQLite.
    async fn dead_rows(&self) -> StorageResult<Option<DeadRows>> {
        Ok(None)
    }

    /// What was done in the last `range`, in steps of at least a minute. There is a point for each step, even if
    /// nothing was done. Steps begin at multiples of their length, so the first one may begin before the range. The
    /// current minute is left out, because workers write a minute when it is over.
    ///
    /// For charts: an hour by minutes, a day by quarters of an hour, a week by hours. Older parts of the history are
    /// kept by quarters of an hour (from two hours on) and by hours (from two days on). Smaller steps show them as one
    /// point.
    async fn series(&self, range: Duration, step: Duration, filter: &WorkFilter) -> StorageResult<Vec<Point>>;

    /// How fast the jobs of these queues were completed in the last `range`, in steps as in [`series`](Self::series).
    /// Queues in which nothing was done are left out.
    async fn queue_rates(&self, queues: &[String], range: Duration, step: Duration) -> StorageResult<Vec<QueueRates>>;

    /// What was done in the last `range` whole minutes, by queue and kind.
    async fn rates(&self, range: Duration) -> StorageResult<Vec<KindRate>>;

    /// The same as [`rates`](Self::rates), without waits and runs. This takes a small part of the time.
    async fn outcomes(&self, range: Duration) -> StorageResult<Vec<KindRate>>;

    /// Jobs that are under a lease now, of this queue or of all, at most `limit`. The earliest claims come first. Some
    /// of the jobs may be prefetched: claimed, and not started yet.
    async fn leased(&self, queue: Option<&str>, limit: usize) -> StorageResult<Vec<LeasedJob>>;

    /// What happened to jobs since an earlier call. It misses jobs whose rows are deleted at their end (`retain =
    /// "none"`), and starts of attempts that ended between two calls. If hundreds of newer jobs exist, it also misses
    /// ends of jobs that are kept for ever.
    async fn events(&self, since: &EventsSince) -> StorageResult<Events>;
}

/// After a count, all workers rest for this many times the time that it took. So counting takes at most a hundredth of
/// one core.
const REST: u32 = 100;

/// How long all workers rest after a count. The storage says how long at least.
pub fn rest_after(took: Duration, least: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    took.saturating_mul(REST).clamp(least, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_takes_at_most_a_hundredth_of_the_time() {
        let second = Duration::from_secs(1);
        assert_eq!(rest_after(second / 1000, 5 * second), 5 * second);
        assert_eq!(rest_after(3 * second, 5 * second), 300 * second);
        assert_eq!(rest_after(Duration::MAX, second), 24 * 3600 * second);
    }
}
