//! What can be done with jobs.

use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::Action as Change;

use super::Form;
use crate::failure::Failure;
use crate::field::{Field, Mistake};
use crate::rights::Action;

/// What can be done with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Retry,
    RunNow,
    Cancel,
    Discard,
    Delete,
    Reprioritise,
    Move,
    Copy,
}

impl Verb {
    pub(crate) const ALL: [Self; 8] = [
        Self::Retry,
        Self::RunNow,
        Self::Reprioritise,
        Self::Move,
        Self::Copy,
        Self::Cancel,
        Self::Discard,
        Self::Delete,
    ];

    /// The verb of a form.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// The name in a form.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::RunNow => "run-now",
            Self::Cancel => "cancel",
            Self::Discard => "discard",
            Self::Delete => "delete",
            Self::Reprioritise => "reprioritise",
            Self::Move => "move",
            Self::Copy => "copy",
        }
    }

    /// The text on a button.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::RunNow => "Run now",
            Self::Cancel => "Cancel",
            Self::Discard => "Discard",
            Self::Delete => "Delete",
            Self::Reprioritise => "Reprioritise",
            Self::Move => "Move",
            Self::Copy => "Enqueue a copy",
        }
    }

    /// The question: what is done, with the number of jobs in the place of `{}`.
    pub(super) fn question(self, jobs: &str) -> String {
        match self {
            Self::RunNow => format!("Run {jobs} now?"),
            Self::Reprioritise => format!("Change the priority of {jobs}?"),
            Self::Move => format!("Move {jobs} to another queue?"),
            Self::Copy => format!("Enqueue {jobs} again?"),
            verb => format!("{} {jobs}?", verb.label()),
        }
    }

    /// What has happened to jobs.
    pub(super) const fn done(self) -> &'static str {
        match self {
            Self::Retry | Self::RunNow => "due now",
            Self::Cancel => "cancelled",
            Self::Discard => "discarded",
            Self::Delete => "deleted",
            Self::Reprioritise => "given another priority",
            Self::Move => "moved",
            Self::Copy => "enqueued again",
        }
    }

    pub(super) const fn effect(self) -> &'static str {
        match self {
            Self::Retry => {
                "They are due now, with at least one attempt left. Those with rules still wait for their turn."
            }
            Self::RunNow => {
                "They become due now, and nothing else about them changes. Those with rules still wait for their turn."
            }
            Self::Cancel => "Waiting jobs will not run. A running handler is asked to stop, and its result is refused.",
            Self::Discard => "They are discarded, as if they were out of attempts.",
            Self::Delete => "They are deleted with their failures and outputs. This cannot be undone.",
            Self::Reprioritise => "Jobs with a higher priority are claimed first.",
            Self::Move => "Workers of the new queue will run them.",
            Self::Copy => "Each is enqueued under a new id, with all its attempts. The ended jobs stay as they are.",
        }
    }

    pub(crate) const fn destroys(self) -> bool {
        matches!(self, Self::Cancel | Self::Discard | Self::Delete)
    }

    /// Whether a form that is sent twice would change more than a form that is sent once.
    pub(super) const fn is_cumulative(self) -> bool {
        matches!(self, Self::Copy)
    }

    pub(crate) const fn right(self) -> Action {
        match self {
            Self::Retry => Action::Retry,
            Self::RunNow => Action::RunNow,
            Self::Cancel => Action::Cancel,
            Self::Discard => Action::Discard,
            Self::Delete => Action::Delete,
            Self::Reprioritise => Action::Reprioritise,
            Self::Move => Action::Move,
            Self::Copy => Action::Copy,
        }
    }

    /// Whether the verb applies to a job in this state. Then the page of the job offers it.
    pub(crate) fn applies_to(self, state: JobState) -> bool {
        match self {
            // A due job needs neither `retry` nor `run-now`.
            Self::Retry => {
                matches!(state, JobState::Cancelled | JobState::Discarded | JobState::Scheduled | JobState::Retrying)
            }
            Self::RunNow => matches!(state, JobState::Scheduled | JobState::Retrying),
            Self::Cancel => !state.is_finished(),
            Self::Discard | Self::Reprioritise | Self::Move => state.is_waiting(),
            Self::Delete => state != JobState::Running,
            Self::Copy => state.is_finished(),
        }
    }

    /// The further fields of its form.
    pub(super) fn fields(self) -> Vec<Field> {
        match self {
            Self::Reprioritise => vec![Field::line("priority", "Priority", "From -32768 to 32767. Higher runs first.")],
            Self::Move => vec![Field::line("queue", "Queue", "A queue that a worker serves.")],
            _ => Vec::new(),
        }
    }

    /// The change, with the values of the further fields. `is_asked`: the form is not filled in yet.
    pub(super) fn change(self, form: &Form, is_asked: bool) -> Result<Change, Failure> {
        let change = match self {
            Self::Retry => Change::Retry,
            Self::RunNow => Change::RunNow,
            Self::Cancel => Change::Cancel,
            Self::Discard => Change::Discard,
            Self::Delete => Change::Delete,
            Self::Copy => Change::Rerun,
            Self::Reprioritise | Self::Move if is_asked => match self {
                Self::Move => Change::Move("default".to_owned()),
                _ => Change::Reprioritise(0),
            },
            Self::Reprioritise => {
                let text = form.get("priority").trim();
                let wrong = |_| {
                    Mistake::of("priority", &format!("{text:?} is not a priority: write a number from -32768 to 32767"))
                };
                Change::Reprioritise(text.parse().map_err(wrong)?)
            }
            Self::Move => Change::Move(form.get("queue").to_owned()),
        };
        change.validate().map_err(|problem| Mistake::of("queue", &problem))?;
        Ok(change)
    }
}
