//! The chores: work in the background that any worker does for all, in bounded batches. The database decides for each
//! batch which worker does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::pause::{Idle, idle_pause};
use super::unserved::Logged;
use crate::crash_point::crash_point;
use crate::history::FOLDS;
use crate::recorder::Event;
use crate::storage::{BETWEEN_STEPS, Chore, Maintained, STEP};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::idleness::{Call, POLLS};
use crate::worker::shared::Shared;

/// The most rows of a batch.
const BATCH: usize = STEP;
/// The bounds of the time until the next turn, if the storage says it. The upper one lets a worker notice when another
/// one that did the chore has died.
const TURNS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// When a chore is done.
#[derive(Clone, Copy)]
struct Routine {
    chore: Chore,
    /// The first pause. It is short where workers that are replaced every minute would otherwise never do the chore.
    first: Duration,
    every: Duration,
    /// The pause between two batches, so that a chore does not slow down other sessions.
    between: Duration,
}

impl Routine {
    const fn new(chore: Chore, first: u64, every: u64) -> Self {
        let between = Duration::from_millis(50);
        Self { chore, first: Duration::from_secs(first), every: Duration::from_secs(every), between }
    }
}

/// All chores, each as a service of its own: a long batch of one delays no other. A `brief` worker begins to delete at
/// once, because nobody else may do it where all workers are brief.
pub(super) fn all(
    shared: &Arc<Shared>,
    stop: &CancellationToken,
    brief: bool,
) -> impl Iterator<Item = impl Future<Output = ()> + use<>> {
    let keep_history = shared.settings.keep_history;
    let first = move |seconds| if brief { 0 } else { seconds };
    let routines = [
        Routine::new(Chore::Prune, first(5), 60),
        Routine::new(Chore::PruneHistory(keep_history), first(10), 60),
        Routine::new(Chore::SampleJobs, 2, 30),
        Routine { between: BETWEEN_STEPS, ..Routine::new(Chore::StepOperation, 5, 5) },
    ];
    let folds = FOLDS.into_iter().map(move |fold| Routine::new(Chore::FoldHistory(fold), first(10), 60));
    let (shared, stop) = (shared.clone(), stop.clone());
    routines.into_iter().chain(folds).map(move |routine| run(routine, shared.clone(), stop.clone()))
}

async fn run(routine: Routine, shared: Arc<Shared>, stop: CancellationToken) {
    let Routine { chore, first, every, between } = routine;
    let warning = RateLimitedWarning::new(chore.as_str());
    let mut logged = Logged::default();
    let calls: &[Call] = match chore {
        // An operation is inserted as a setting is changed.
        Chore::StepOperation => &[Call::Operation, Call::Changes],
        // Only a count finds the due jobs that no live worker runs.
        Chore::SampleJobs => &[Call::Overdue],
        _ => &[],
    };
    let (mut wait, mut polls, mut since) = (first, 0, shared.idleness.now());
    // A brief worker does its first turn in any case.
    while wait.is_zero() || idle_pause(&shared, wait, Idle { since, polls, calls }, &stop).await {
        (since, polls) = (shared.idleness.now(), POLLS);
        // While the database is frozen, operators may want to see everything.
        if *shared.frozen.borrow() && matches!(chore, Chore::FoldHistory(_) | Chore::PruneHistory(_)) {
            wait = every;
            continue;
        }
        crash_point(chore.as_str());
        let done = shared.storage.maintain(chore, BATCH).await;
        if chore == Chore::Prune {
            crash_point("pruned");
        }
        wait = match done {
            Ok(done) => {
                tell(&shared, chore, &done);
                logged.say(&done.unserved, Instant::now());
                let turn = done.next.map_or(every, |next| next.clamp(TURNS.0, TURNS.1).mul_f64(1.25));
                if done.more {
                    polls = 0;
                }
                if done.more { between } else { turn }
            }
            Err(problem) => {
                warning.report(&problem);
                polls = 0;
                every
            }
        };
    }
}

fn tell(shared: &Shared, chore: Chore, done: &Maintained) {
    if let Some(reason) = &done.rested {
        telemetry::not_counted(reason);
    }
    if chore == Chore::Prune && done.rows > 0 {
        telemetry::pruned(done.rows);
        shared.settings.recorders.record(|| Event::Pruned { jobs: done.rows });
    }
}
