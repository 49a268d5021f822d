//! Whether a rescan may be skipped. A rescan reads all entries below the scan floors. With millions of waiting jobs of
//! unknown kinds, that takes seconds. If nothing in the table has changed, it finds as little as the rescan before.
//!
//! The server counts the changes of each table, but publishes the counts up to ten seconds later. Before version 15, an
//! idle session kept its counts until its next statement, so rescans are never skipped there. The server does not count
//! a row that was only locked. So rescans are skipped only for a limited time, and never if jobs are known to have come
//! back.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Rescans that take less than this are never skipped.
const EXPENSIVE: Duration = Duration::from_millis(400);
/// While nothing changes, the time between two rescans is this many times as long as a rescan takes.
const SHARE: u32 = 100;
/// But the time between two rescans is never longer than this.
const LONGEST: Duration = Duration::from_secs(300);

/// What the last rescan saw, if it found nothing.
#[derive(Debug)]
pub(crate) struct Unchanged {
    changes: i64,
    paused: HashSet<String>,
    began: Instant,
    took: Duration,
}

impl Unchanged {
    /// Returns `None` if the server does not count changes.
    pub(crate) fn new(changes: Option<i64>, paused: &HashSet<String>, began: Instant, took: Duration) -> Option<Self> {
        changes.map(|changes| Self { changes, paused: paused.clone(), began, took })
    }

    /// Whether the next rescan would find nothing, either, as far as the server has counted changes.
    pub(crate) fn still(&self, changes: Option<i64>, paused: &HashSet<String>, now: Instant) -> bool {
        let age = now.duration_since(self.began);
        self.took > EXPENSIVE
            && age < (self.took * SHARE).min(LONGEST)
            && changes == Some(self.changes)
            && *paused == self.paused
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn still(took: Duration, changes: Option<i64>, paused: &[&str], age: Duration) -> bool {
        let (began, none) = (Instant::now(), HashSet::new());
        let paused = paused.iter().map(|&queue| queue.to_owned()).collect();
        Unchanged::new(Some(7), &none, began, took).unwrap().still(changes, &paused, began + age)
    }

    #[test]
    fn an_expensive_rescan_is_left_out_while_nothing_changes() {
        let second = Duration::from_secs(1);
        assert!(still(second, Some(7), &[], 90 * second));
        assert!(!still(second, Some(8), &[], second), "the table has changed");
        assert!(!still(second, None, &[], second), "nobody counts any more");
        assert!(!still(second, Some(7), &["mail"], second), "another queue is paused");
        assert!(!still(second, Some(7), &[], 101 * second), "not for ever");
        assert!(!still(60 * second, Some(7), &[], 301 * second), "not for ever");
        assert!(!still(second / 10, Some(7), &[], second), "it was cheap");
    }

    #[test]
    fn without_counts_no_rescan_is_skipped() {
        assert!(Unchanged::new(None, &HashSet::new(), Instant::now(), Duration::from_secs(1)).is_none());
    }
}
