//! What a drain did.

use std::fmt;

use chrono::{DateTime, Utc};
use diesel_jobs_core::{Job, JobId, JobRecord, Transition};

/// What a [`drain`](super::drain) ran, in order, and what still waits. Its `Display` has a line for each.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DrainReport {
    /// The attempts.
    pub ran: Vec<RanJob>,
    /// The jobs that still wait.
    pub waiting: Vec<StillWaiting>,
}

/// One attempt of one job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RanJob {
    /// The job's id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Which attempt, from 1.
    pub attempt: u16,
    /// What became of the job.
    pub transition: Transition,
    /// The stored failure, or the reason of a cancel.
    pub error: Option<String>,
}

impl RanJob {
    /// Whether the attempt failed: the job is retried or discarded.
    pub fn failed(&self) -> bool {
        matches!(self.transition, Transition::Retry { .. } | Transition::Discard { .. })
    }
}

/// A job that a drain left.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StillWaiting {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// When it is due.
    pub run_at: DateTime<Utc>,
    /// Why the drain did not run it.
    pub why: String,
}

impl StillWaiting {
    pub(super) fn new(job: &JobRecord, why: String) -> Self {
        Self { id: job.id, kind: job.kind.clone(), queue: job.queue.clone(), run_at: job.run_at, why }
    }
}

impl DrainReport {
    fn count<J: Job>(&self, is: impl Fn(&Transition) -> bool) -> usize {
        self.ran.iter().filter(|ran| ran.kind == J::KIND && is(&ran.transition)).count()
    }

    /// How many jobs of this kind completed.
    pub fn completed<J: Job>(&self) -> usize {
        self.count::<J>(|transition| matches!(transition, Transition::Complete(_)))
    }

    /// How many jobs of this kind were discarded.
    pub fn discarded<J: Job>(&self) -> usize {
        self.count::<J>(|transition| matches!(transition, Transition::Discard { .. }))
    }

    /// Panics with the report unless exactly this many jobs of this kind completed.
    #[track_caller]
    pub fn assert_completed<J: Job>(&self, expected: usize) {
        let completed = self.completed::<J>();
        assert!(completed == expected, "{completed} jobs of kind `{}` completed, expected {expected}\n{self}", J::KIND);
    }

    /// Panics with the report unless exactly this many jobs of this kind were discarded.
    #[track_caller]
    pub fn assert_discarded<J: Job>(&self, expected: usize) {
        let discarded = self.discarded::<J>();
        assert!(
            discarded == expected,
            "{discarded} jobs of kind `{}` were discarded, expected {expected}\n{self}",
            J::KIND
        );
    }
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} attempts ran, {} jobs wait", self.ran.len(), self.waiting.len())?;
        for RanJob { id, kind, queue, attempt, transition, error } in &self.ran {
            write!(f, "  job {id} of kind `{kind}` in queue `{queue}`, attempt {attempt}: ")?;
            match transition {
                Transition::Complete(_) => write!(f, "completed")?,
                Transition::Retry { delay, .. } => write!(f, "failed, retried in {delay:?}")?,
                Transition::Snooze(delay) => write!(f, "snoozed for {delay:?}")?,
                Transition::Release => write!(f, "given back")?,
                Transition::Cancel { .. } => write!(f, "cancelled")?,
                Transition::Discard { .. } => write!(f, "failed, discarded")?,
            }
            match error {
                Some(error) => writeln!(f, ": {error}")?,
                None => writeln!(f)?,
            }
        }
        for StillWaiting { id, kind, queue, why, .. } in &self.waiting {
            writeln!(f, "  job {id} of kind `{kind}` in queue `{queue}` waits: {why}")?;
        }
        Ok(())
    }
}
