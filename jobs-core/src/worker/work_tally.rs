//! What this worker did since the history was written last, in memory. Each finished attempt calls it, so it writes
//! nothing and does not wait for locks. The completer is one task. Threads that end transactional attempts take another
//! part while one is in use.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::context::JobContext;
use crate::history::{HistoryRow, OTHER, WorkCounts, fold};
use crate::outcome::Transition;
use crate::state::JobState;
use crate::storage::{CrashedAttempt, EndedWaiting};

/// How many parts there are, so that threads do not wait for each other.
const PARTS: usize = 4;

/// The most queues and kinds that a part distinguishes. Everyone who enqueues chooses names, and a rescue counts jobs
/// of other programs, too.
const MOST: usize = 500;

/// Longer names are cut.
const LONGEST: usize = 200;

/// The counts of each queue and kind. The index is for look-ups without a copy of the names.
#[derive(Default)]
struct Part {
    index: FxHashMap<String, FxHashMap<String, usize>>,
    rows: Vec<HistoryRow>,
}

impl Part {
    fn counts(&mut self, queue: &str, kind: &str) -> &mut WorkCounts {
        let (queue, kind) = (cut(queue), cut(kind));
        let (queue, kind) = match self.place(queue, kind) {
            None if self.rows.len() >= MOST => (OTHER, OTHER),
            _ => (queue, kind),
        };
        let place = self.place(queue, kind).unwrap_or_else(|| self.add(queue, kind));
        &mut self.rows[place].counts
    }

    fn place(&self, queue: &str, kind: &str) -> Option<usize> {
        self.index.get(queue)?.get(kind).copied()
    }

    fn add(&mut self, queue: &str, kind: &str) -> usize {
        let place = self.rows.len();
        self.index.entry(queue.to_owned()).or_default().insert(kind.to_owned(), place);
        self.rows.push(HistoryRow { queue: queue.to_owned(), kind: kind.to_owned(), counts: WorkCounts::default() });
        place
    }
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST)]
}

/// What was done since a certain time.
pub(crate) struct WorkTally {
    parts: [Mutex<Part>; PARTS],
    since: Mutex<Instant>,
}

impl Default for WorkTally {
    fn default() -> Self {
        Self { parts: Default::default(), since: Mutex::new(Instant::now()) }
    }
}

/// No foreign code runs under these locks, so there is no panic while one is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkTally {
    /// A part that no other thread uses at the moment.
    fn part(&self) -> MutexGuard<'_, Part> {
        self.parts.iter().find_map(|part| part.try_lock().ok()).unwrap_or_else(|| lock(&self.parts[0]))
    }

    /// Counts an attempt that ended with this transition.
    pub(crate) fn record(&self, ctx: &JobContext, transition: &Transition, ran: Duration) {
        if matches!(transition, Transition::Release) {
            return;
        }
        let mut part = self.part();
        let counts = part.counts(ctx.queue(), ctx.kind());
        counts.count(transition);
        if let Some(waited) = ctx.waited() {
            counts.record(waited, ran);
        }
    }

    /// Counts a job that its handler's own transaction has completed.
    pub(crate) fn record_completion(&self, ctx: &JobContext, ran: Duration) {
        let mut part = self.part();
        let counts = part.counts(ctx.queue(), ctx.kind());
        counts.completed += 1;
        if let Some(waited) = ctx.waited() {
            counts.record(waited, ran);
        }
    }

    /// Counts attempts that ended with their workers. How long they ran is unknown.
    pub(crate) fn record_crashes(&self, attempts: &[CrashedAttempt]) {
        for CrashedAttempt { queue, kind, discarded } in attempts {
            let mut part = self.part();
            let counts = part.counts(queue, kind);
            *if *discarded { &mut counts.discarded } else { &mut counts.retried } += 1;
        }
    }

    /// Counts jobs that have ended while they waited.
    pub(crate) fn record_ended(&self, jobs: &[EndedWaiting]) {
        for EndedWaiting { queue, kind, state } in jobs {
            let mut part = self.part();
            let counts = part.counts(queue, kind);
            *if *state == JobState::Discarded { &mut counts.discarded } else { &mut counts.cancelled } += 1;
        }
    }

    /// Takes what was done. Returns the middle of the time in which it was done, too.
    pub(crate) fn take(&self) -> (Instant, Vec<HistoryRow>) {
        let now = Instant::now();
        let since = std::mem::replace(&mut *lock(&self.since), now);
        let parts: Vec<Part> = self.parts.iter().map(|part| std::mem::take(&mut *lock(part))).collect();
        (since + (now - since) / 2, fold(parts.into_iter().flat_map(|part| part.rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(queue: &str, kind: &str) -> CrashedAttempt {
        CrashedAttempt { queue: queue.into(), kind: kind.into(), discarded: true }
    }

    #[test]
    fn too_many_names_are_counted_together_and_long_ones_are_cut() {
        let tally = WorkTally::default();
        let names = (0..3 * MOST).map(|number| crashed("q", &format!("k{number}")));
        tally.record_crashes(&names.collect::<Vec<_>>());
        tally.record_crashes(&[crashed("q", "k1"), crashed("q", &"\u{e4}".repeat(500_000))]);
        let (_, rows) = tally.take();
        let discarded = |kind: &str| rows.iter().find(|row| row.kind == kind).map(|row| row.counts.discarded);
        assert_eq!((rows.len(), discarded("k1"), discarded(OTHER)), (MOST + 1, Some(2), Some(2 * MOST as u64 + 1)));
        assert!(tally.take().1.is_empty(), "it was taken");
        tally.record_crashes(&[crashed("q", &"\u{e4}".repeat(500_000))]);
        assert_eq!(tally.take().1[0].kind.len(), LONGEST);
    }

    #[test]
    fn work_of_several_threads_is_added() {
        let begun = Instant::now();
        let tally = WorkTally::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| tally.record_crashes(&[crashed("q", "k")])));
            }
        });
        let (middle, rows) = tally.take();
        assert_eq!((rows.len(), rows[0].counts.discarded), (1, 8000));
        assert!((begun..=Instant::now()).contains(&middle));
    }
}
