//! Which jobs an application cancels, retries or reschedules on its own connection.

use crate::enqueued::Enqueued;
use crate::job_id::JobId;
use crate::new_job::{IntoNewJob, InvalidJob};
use crate::unique::UniqueKey;

/// Which of your jobs to cancel, retry or reschedule: a [`JobId`], several of them, all jobs with a [`Tagged`], or the
/// job that has the unique key of a job like the one that you would enqueue.
pub trait Selection {
    /// Encodes and checks the selection.
    #[doc(hidden)]
    fn selected(self) -> Result<Selected, InvalidJob>;
}

/// What a database looks for. Only our crates match it, so it is exhaustive.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    Ids(Vec<i64>),
    Tag(String),
    Key(Box<UniqueKey>),
}

/// All jobs with this tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged<T>(pub T);

impl Selection for JobId {
    fn selected(self) -> Result<Selected, InvalidJob> {
        Ok(Selected::Ids(vec![self.0]))
    }
}

impl Selection for Enqueued {
    fn selected(self) -> Result<Selected, InvalidJob> {
        self.id().selected()
    }
}

impl Selection for &[JobId] {
    fn selected(self) -> Result<Selected, InvalidJob> {
        Ok(Selected::Ids(self.iter().map(|id| id.0).collect()))
    }
}

impl<T: Into<String>> Selection for Tagged<T> {
    fn selected(self) -> Result<Selected, InvalidJob> {
        Ok(Selected::Tag(self.0.into()))
    }
}

impl<J: IntoNewJob> Selection for J {
    fn selected(self) -> Result<Selected, InvalidJob> {
        let job = self.into_new_job()?;
        job.unique.map(Selected::Key).ok_or_else(|| InvalidJob::NotUnique { kind: job.kind.into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewJob;

    #[test]
    fn a_job_without_a_unique_key_selects_nothing() {
        let job = NewJob::raw("send_invoice", "{}");
        let problem = job.selected().unwrap_err().to_string();
        assert!(problem.contains("job `send_invoice` has no unique key"), "{problem}");
    }
}
