//! The report of a drain.

use std::fmt;

use chrono::{DateTime, Utc};
use diesel_jobs_core::{Failure, JobContext, JobId, JobRecord, Output, Registered, Transition};

use super::decoded::is_of;

/// The attempts of a [`drain`](super::drain), and the jobs that still wait after it. Its `Display` prints one line for
/// each of them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DrainReport {
    /// The attempts, in the order in which they ran.
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
    /// The number of the attempt, from 1.
    pub attempt: u16,
    /// How the job was finished.
    pub transition: Transition,
    /// The message of the stored failure, or the reason of the cancellation.
    pub error: Option<String>,
    /// The output, if the job has one.
    pub output: Option<Output>,
}

impl RanJob {
    pub(super) fn new(ctx: &JobContext, transition: &Transition) -> Self {
        let error = transition.failure().map(|Failure { message, .. }| message.clone());
        Self {
            id: ctx.id(),
            kind: ctx.kind().to_owned(),
            queue: ctx.queue().to_owned(),
            attempt: ctx.attempt(),
            transition: transition.clone(),
            error,
            output: transition.output().cloned(),
        }
    }

    /// Whether the attempt failed, so that the job is retried or discarded.
    pub fn failed(&self) -> bool {
        matches!(self.transition, Transition::Retry { .. } | Transition::Discard { .. })
    }
}

/// A job that still waits after a drain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StillWaiting {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// When the job is due.
    pub run_at: DateTime<Utc>,
    /// Why the drain did not run it.
    pub why: String,
}

impl StillWaiting {
    pub(super) fn new(job: &JobRecord, why: String) -> Self {
        Self { id: job.id, kind: job.kind.clone(), queue: job.queue.clone(), run_at: job.run_at, why }
    }
}

/// How an attempt of a [`drain`](super::drain) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The job completed.
    Completed,
    /// The attempt failed, and the job will be retried.
    Retried,
    /// The job was snoozed, and the run does not count as an attempt.
    Snoozed,
    /// The job was released.
    Released,
    /// The job was cancelled.
    Cancelled,
    /// The attempt failed, and the job was discarded.
    Discarded,
}

impl RanJob {
    /// How the attempt ended.
    pub fn ended(&self) -> Ended {
        match &self.transition {
            Transition::Complete(_) | Transition::CompleteWith(..) => Ended::Completed,
            Transition::Retry { .. } => Ended::Retried,
            Transition::Snooze(_) => Ended::Snoozed,
            Transition::Release => Ended::Released,
            Transition::Cancel { .. } => Ended::Cancelled,
            Transition::Discard { .. } => Ended::Discarded,
        }
    }
}

impl DrainReport {
    fn count<J: Registered>(&self, is: impl Fn(&Transition) -> bool) -> usize {
        self.ran.iter().filter(|ran| is_of::<J>(&ran.kind) && is(&ran.transition)).count()
    }

    /// How many jobs of this kind completed, including those of earlier versions.
    pub fn completed<J: Registered>(&self) -> usize {
        self.count::<J>(|transition| matches!(transition, Transition::Complete(_) | Transition::CompleteWith(..)))
    }

    /// How many jobs of this kind were discarded, including those of earlier versions.
    pub fn discarded<J: Registered>(&self) -> usize {
        self.count::<J>(|transition| matches!(transition, Transition::Discard { .. }))
    }

    /// Asserts how the attempts of jobs of this kind ended, in the order in which they ran. Jobs of earlier versions
    /// are included. A failed assertion panics, with the report as its message.
    ///
    /// ```text
    /// use diesel_jobs::testing::Ended::{Completed, Retried};
    ///
    /// let report = drain(&mut conn).skip_time().run()?;
    /// report.assert_ran::<SendReceipt>([Retried, Completed]);
    /// ```
    #[track_caller]
    pub fn assert_ran<J: Registered>(&self, expected: impl IntoIterator<Item = Ended>) {
        let ran = self.ran.iter().filter(|ran| is_of::<J>(&ran.kind));
        let ran: Vec<Ended> = ran.map(RanJob::ended).collect();
        let expected: Vec<Ended> = expected.into_iter().collect();
        assert!(ran == expected, "the attempts of kind `{}` ended {ran:?}, expected {expected:?}\n{self}", J::KIND);
    }

    /// Asserts that exactly this many jobs of this kind completed. A failed assertion panics, with the report as its
    /// message.
    #[track_caller]
    pub fn assert_completed<J: Registered>(&self, expected: usize) {
        let completed = self.completed::<J>();
        assert!(completed == expected, "{completed} jobs of kind `{}` completed, expected {expected}\n{self}", J::KIND);
    }

    /// Asserts that exactly this many jobs of this kind were discarded. A failed assertion panics, with the report as
    /// its message.
    #[track_caller]
    pub fn assert_discarded<J: Registered>(&self, expected: usize) {
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
        let (ran, waiting) = (self.ran.len(), self.waiting.len());
        let (attempts, wait) =
            (if ran == 1 { "attempt" } else { "attempts" }, if waiting == 1 { "job waits" } else { "jobs wait" });
        writeln!(f, "{ran} {attempts} ran, {waiting} {wait}")?;
        for RanJob { id, kind, queue, attempt, transition, error, output } in &self.ran {
            write!(f, "  job {id} of kind `{kind}` in queue `{queue}`, attempt {attempt}: ")?;
            match transition {
                Transition::Complete(_) | Transition::CompleteWith(..) => write!(f, "completed")?,
                Transition::Retry { delay, .. } => write!(f, "failed, retried in {delay:?}")?,
                Transition::Snooze(delay) => write!(f, "snoozed for {delay:?}")?,
                Transition::Release => write!(f, "given back")?,
                Transition::Cancel { .. } => write!(f, "cancelled")?,
                Transition::Discard { .. } => write!(f, "failed, discarded")?,
            }
            if let Some(note) = output.as_ref().and_then(Output::note) {
                write!(f, ", {note}")?;
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
