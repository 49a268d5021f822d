//! Events for metrics: a [`Recorder`] receives an [`Event`] for everything that happens in a worker. A worker without
//! recorders creates no events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::FailureKind;
use crate::outcome::Transition;
use crate::panics;
use crate::telemetry;

/// Receives the events of a worker, to count and measure them. Add one with `WorkerBuilder::recorder`.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use diesel_jobs_core::{AttemptOutcome, Event, Recorder};
///
/// #[derive(Default)]
/// struct Discarded(AtomicU64);
///
/// impl Recorder for Discarded {
///     fn record(&self, event: &Event<'_>) {
///         if let Event::AttemptEnded { outcome: AttemptOutcome::Discarded, .. } = event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Recorder: Send + Sync + 'static {
    /// Called for each event, on the tasks and threads of the worker. It must be quick and must not block. If it
    /// panics, the panic is logged and the worker continues.
    fn record(&self, event: &Event<'_>);
}

/// Something that happened in a worker, or in a program that enqueues or operates on jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// This program has sent jobs of one kind to the database. The transaction around them may still be rolled back.
    /// Only recorders that were passed to [`record_enqueues`](crate::record_enqueues) receive this event.
    Sent {
        /// The queue.
        queue: &'a str,
        /// The kind.
        kind: &'a str,
        /// How many.
        jobs: usize,
    },
    /// A claim has returned this number of jobs, which may be zero.
    Claimed {
        /// How many.
        jobs: usize,
    },
    /// A claim has returned jobs of one kind.
    Received {
        /// The queue.
        queue: &'a str,
        /// The kind.
        kind: &'a str,
        /// How many.
        jobs: usize,
    },
    /// An attempt has ended, and its end is stored.
    AttemptEnded {
        /// The queue.
        queue: &'a str,
        /// The kind.
        kind: &'a str,
        /// How it ended.
        outcome: AttemptOutcome,
        /// How it failed, if it did.
        error: Option<FailureKind>,
        /// The time from `run_at` to the start of the handler. `None` if the handler was not called.
        wait: Option<Duration>,
        /// How long the handler ran. `None` if it was not called.
        run: Option<Duration>,
    },
    /// An attempt did not start, or its finish was refused, because its lease was lost.
    LeaseLost {
        /// The queue.
        queue: &'a str,
        /// The kind.
        kind: &'a str,
    },
    /// Jobs of dead workers were rescued.
    Rescued {
        /// How many.
        jobs: usize,
        /// What happened to them.
        outcome: RescueOutcome,
    },
    /// Ended jobs were deleted because their retention was over.
    Pruned {
        /// How many.
        jobs: usize,
    },
    /// Ticks of a schedule were enqueued.
    ScheduleFired {
        /// The kind of the jobs.
        kind: &'a str,
        /// How many ticks.
        jobs: usize,
    },
    /// An operation of the storage has ended.
    StorageOperation {
        /// Its name, such as `claim`.
        operation: &'static str,
        /// How long it took.
        took: Duration,
        /// The [name](crate::StorageError::name) of the error, if the operation failed.
        error: Option<&'static str>,
    },
    /// An idle worker has polled the database for jobs.
    Polled,
    /// A claim returned no jobs although some are due, because other workers hold their rows or the claim limit is
    /// reached.
    ClaimRefused,
    /// This process has carried out an operator's action. Only recorders that were passed to
    /// [`record_actions`](crate::record_actions) receive this event.
    OperatorAction {
        /// The verb, such as `retry`.
        action: &'a str,
        /// How many jobs it changed.
        jobs: usize,
    },
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The job is completed.
    Completed,
    /// It failed, and the job runs again later.
    Retried,
    /// It failed permanently.
    Discarded,
    /// The handler cancelled the job.
    Cancelled,
    /// The job runs again later, and the run does not count as an attempt.
    Snoozed,
    /// The job is available again, and the run does not count as an attempt: the worker is stopping, or no slot or
    /// connection was free.
    Released,
}

/// What happened to a job whose worker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RescueOutcome {
    /// The job waits for its next attempt. Both the attempt and the crash are counted.
    Returned,
    /// The job waits again, and the run does not count as an attempt, because its worker was killed while it was
    /// stopping.
    Released,
    /// The job is discarded, because it has crashed too often or has no attempts left.
    Discarded,
}

impl RescueOutcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Returned, Self::Released, Self::Discarded];

    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Released => "released",
            Self::Discarded => "discarded",
        }
    }
}

impl AttemptOutcome {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Completed, Self::Retried, Self::Discarded, Self::Cancelled, Self::Snoozed, Self::Released];

    /// How an attempt ended that this transition ends, and how it failed.
    pub(crate) fn of(transition: &Transition) -> (Self, Option<FailureKind>) {
        match transition {
            Transition::Complete(_) | Transition::CompleteWith(..) => (Self::Completed, None),
            Transition::Retry { failure, .. } => (Self::Retried, Some(failure.kind)),
            Transition::Discard { failure, .. } => (Self::Discarded, Some(failure.kind)),
            Transition::Cancel { .. } => (Self::Cancelled, None),
            Transition::Snooze(_) => (Self::Snoozed, None),
            Transition::Release => (Self::Released, None),
        }
    }

    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Retried => "retried",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
        }
    }
}

/// The recorders of a worker.
#[derive(Clone, Default)]
pub(crate) struct Recorders(Vec<Arc<dyn Recorder>>);

impl fmt::Debug for Recorders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorders").field(&self.0.len()).finish()
    }
}

impl Recorders {
    pub(crate) fn add(&mut self, recorder: Arc<dyn Recorder>) {
        self.0.push(recorder);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the event only if there is a recorder.
    #[inline]
    pub(crate) fn record<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if !self.is_empty() {
            self.send(&event());
        }
    }

    fn send(&self, event: &Event<'_>) {
        for recorder in &self.0 {
            if let Err(panic) = panics::caught_call(|| recorder.record(event)) {
                telemetry::recorder_failed(&panic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Panics;

    impl Recorder for Panics {
        fn record(&self, _: &Event<'_>) {
            panic!("no room");
        }
    }

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Recorder for Counts {
        fn record(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_recorder_that_panics_keeps_no_other_from_its_events() {
        let (mut recorders, counts) = (Recorders::default(), Arc::<Counts>::default());
        recorders.add(Arc::new(Panics));
        recorders.add(counts.clone());
        recorders.record(|| Event::Polled);
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn without_a_recorder_no_event_is_made() {
        Recorders::default().record(|| unreachable!("there is no recorder"));
    }
}
