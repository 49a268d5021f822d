//! What `retry` and `cancel` share: one answer per job, and exit code 1 if any job was refused.

use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::Operated;
use serde::Serialize;

use super::app::App;
use super::exit::{CliError, Exit};
use super::output;

/// What the command did with one job.
#[derive(Serialize)]
pub(super) struct Answer {
    id: i64,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
    #[serde(skip)]
    text: String,
}

impl Answer {
    /// Builds the answer. `done` and `refused` are the texts for a job that was changed, and for one whose state
    /// forbids it.
    pub(super) fn new(id: i64, operated: Operated, done: &str, refused: &str) -> Self {
        let (result, state, text) = match operated {
            Operated::Done => ("done", None, format!("job {id}: {done}")),
            Operated::Enqueued(new) => ("done", None, format!("job {id}: {done} as job {new}")),
            Operated::NotFound => ("not_found", None, format!("job {id}: there is no such job")),
            Operated::Newer => (
                "refused",
                None,
                format!(
                    "job {id} was enqueued by a later version of this program, with a feature that this one does not have; use that version"
                ),
            ),
            Operated::Refused(state) => ("refused", Some(state), format!("job {id} is {state}: {refused}")),
        };
        Self { id, result, state, text }
    }
}

/// Prints the answers. The command has tried all jobs before. Returns exit code 1 if any answer is not `done`.
pub(super) fn report(app: &App<'_>, answers: &[Answer]) -> Result<Exit, CliError> {
    output::print(app.json, &answers, || answers.iter().map(|answer| format!("{}\n", answer.text)).collect())?;
    Ok(if answers.iter().all(|answer| answer.result == "done") { Exit::Fine } else { Exit::Failed })
}
