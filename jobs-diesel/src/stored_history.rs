//! How numbers of the history and of jobs are stored, for both databases.

use std::collections::HashMap;

use diesel_jobs_core::history::{Bins, OTHER, WorkCounts};
use diesel_jobs_core::{JobState, KindStats};

/// Completed, retried, discarded, cancelled and snoozed.
pub(crate) type Outcomes = (i64, i64, i64, i64, i64);

/// The numbers of a row that was read. The counts of the bins are never negative.
pub(crate) fn counts(
    (completed, retried, discarded, cancelled, snoozed): Outcomes,
    (waits, runs): (Bins, Bins),
    (wait_seconds, run_seconds): (f64, f64),
) -> WorkCounts {
    WorkCounts {
        completed: completed.unsigned_abs(),
        retried: retried.unsigned_abs(),
        discarded: discarded.unsigned_abs(),
        cancelled: cancelled.unsigned_abs(),
        snoozed: snoozed.unsigned_abs(),
        waits,
        runs,
        wait_seconds,
        run_seconds,
    }
}

/// A number that is written.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The most queues and kinds that a sample distinguishes. The names are in the database, so anyone who enqueues chooses
/// them.
const MOST_KINDS: usize = 10_000;

/// The numbers of jobs by queue and kind, while they are counted.
#[derive(Debug, Default)]
pub(crate) struct JobCounts(HashMap<(String, String), KindStats>);

impl JobCounts {
    /// Adds jobs of this state. `waited` is how long the oldest due one has waited, in seconds.
    pub(crate) fn add(&mut self, queue: String, kind: String, state: JobState, jobs: i64, waited: Option<f64>) {
        let mut key = (queue, kind);
        if self.0.len() >= MOST_KINDS && !self.0.contains_key(&key) {
            key = (OTHER.to_owned(), OTHER.to_owned());
        }
        let stats = self.0.entry(key).or_default();
        let counter = match state {
            JobState::Available => &mut stats.available,
            JobState::Scheduled => &mut stats.scheduled,
            JobState::Retrying => &mut stats.retrying,
            JobState::Held => &mut stats.held,
            JobState::Running => &mut stats.running,
            JobState::Completed => &mut stats.completed,
            JobState::Cancelled => &mut stats.cancelled,
            JobState::Discarded => &mut stats.discarded,
            // No query of this program returns a state that it does not know.
            _ => return,
        };
        *counter += jobs;
        if let Some(waited) = waited {
            stats.oldest_wait_seconds = Some(stats.oldest_wait_seconds.map_or(waited, |oldest| oldest.max(waited)));
        }
    }

    /// The numbers, sorted by queue and kind.
    pub(crate) fn into_kinds(self) -> Vec<KindStats> {
        let named = |((queue, kind), stats)| KindStats { queue, kind, ..stats };
        let mut kinds: Vec<KindStats> = self.0.into_iter().map(named).collect();
        kinds.sort_by(|one, other| (&one.queue, &one.kind).cmp(&(&other.queue, &other.kind)));
        kinds
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_too_many_kinds_are_counted_together() {
        let mut counts = JobCounts::default();
        for number in 0..MOST_KINDS + 7 {
            counts.add("q".to_owned(), format!("k{number}"), JobState::Completed, 2, None);
        }
        counts.add("q".to_owned(), "k0".to_owned(), JobState::Available, 1, Some(3.0));
        let kinds = counts.into_kinds();
        let other = kinds.iter().find(|kind| kind.kind == OTHER).unwrap();
        assert_eq!((kinds.len(), other.completed), (MOST_KINDS + 1, 14));
        let first = kinds.iter().find(|kind| kind.kind == "k0").unwrap();
        assert_eq!((first.available, first.completed, first.oldest_wait_seconds), (1, 2, Some(3.0)));
    }
}
