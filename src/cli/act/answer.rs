//! What a command did with one job.

use diesel_jobs_core::storage::{Action, Operated};
use diesel_jobs_core::{JobId, JobState};
use serde::Serialize;

use super::super::{output, words};

/// What a command did with one job.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Answer {
    id: i64,
    /// `done`, `refused` or `not_found`.
    result: &'static str,
    /// The state that does not allow the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
    /// The new job of a `rerun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_id: Option<i64>,
    #[serde(skip)]
    text: String,
}

impl Answer {
    pub(in super::super) fn new(action: &Action, id: JobId, operated: Operated) -> Self {
        let answer = |result, text: String| Self {
            id: id.0,
            result,
            state: None,
            new_id: None,
            text: output::printable(&format!("job {id}{text}")),
        };
        match operated {
            Operated::Done => answer("done", format!(": {}", words::done(action))),
            Operated::Enqueued(new) => {
                Self { new_id: Some(new.0), ..answer("done", format!(": {} as job {new}", words::done(action))) }
            }
            Operated::NotFound => answer("not_found", ": there is no such job".to_owned()),
            Operated::Newer => answer(
                "refused",
                " was enqueued by a later version of this program, with a feature that this one does not have; use that version"
                    .to_owned(),
            ),
            Operated::Refused(state) => {
                Self { state: Some(state), ..answer("refused", format!(" is {state}: {}", words::refused(action))) }
            }
        }
    }

    /// What the command would do with a job in this state. `None`: there is no such job.
    pub(super) fn of_dry_run(action: &Action, id: JobId, state: Option<JobState>) -> Self {
        match state {
            None => Self::new(action, id, Operated::NotFound),
            Some(state) if !action.applies_to(state) => Self::new(action, id, Operated::Refused(state)),
            Some(state) => Self {
                id: id.0,
                result: "would_be_done",
                state: Some(state),
                new_id: None,
                text: format!(
                    "job {id} is {state}, and nothing was changed: `{}` applies to it",
                    words::command(action)
                ),
            },
        }
    }

    /// Whether the job was changed, or would be.
    pub(in super::super) fn is_done(&self) -> bool {
        matches!(self.result, "done" | "would_be_done")
    }

    /// In one line.
    pub(in super::super) fn text(&self) -> &str {
        &self.text
    }
}
