//! What an operator does to jobs.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::job_id::JobId;
use crate::queue_pattern::{HAS_A_STAR, is_pattern};
use crate::state::JobState;

/// The longest name of a queue, in bytes.
const MAX_QUEUE_BYTES: usize = 200;

/// How far from now a job can be rescheduled: a hundred years. Databases refuse times that clients cannot represent.
pub const MAX_RESCHEDULE: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// What an operator does to jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Makes cancelled, discarded and waiting jobs due now, with at least one attempt left and no crashes.
    Retry,
    /// Makes waiting jobs due now. Nothing else of them changes.
    RunNow,
    /// Sets the time at which waiting jobs are due. A time that has passed is now.
    Reschedule(DateTime<Utc>),
    /// Cancels waiting and running jobs. The attempt of a running job loses its lease.
    Cancel,
    /// Deletes jobs that wait or have ended, with their failures and outputs.
    Delete,
    /// Ends waiting jobs as discarded, as if no attempt was left. What `on_discarded` says is enqueued.
    Discard,
    /// Sets the priority of waiting jobs.
    Reprioritise(i16),
    /// Moves waiting jobs to this queue.
    Move(String),
    /// Enqueues ended jobs again, each under a new id and with all its attempts. The ended jobs stay.
    Rerun,
}

impl Action {
    /// The name as stored and as in the audit.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::RunNow => "run_now",
            Self::Reschedule(_) => "reschedule",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Discard => "discard",
            Self::Reprioritise(_) => "reprioritise",
            Self::Move(_) => "move",
            Self::Rerun => "rerun",
        }
    }

    /// The new time, the new priority or the new queue, as text.
    pub fn argument(&self) -> Option<String> {
        match self {
            Self::Reschedule(at) => Some(at.to_rfc3339()),
            Self::Reprioritise(priority) => Some(priority.to_string()),
            Self::Move(queue) => Some(queue.clone()),
            _ => None,
        }
    }

    /// The action with this name and argument. The text says what is wrong.
    pub fn parse(name: &str, argument: Option<&str>) -> Result<Self, String> {
        let action = match (name, argument) {
            ("retry", None) => Self::Retry,
            ("run_now", None) => Self::RunNow,
            ("cancel", None) => Self::Cancel,
            ("delete", None) => Self::Delete,
            ("discard", None) => Self::Discard,
            ("rerun", None) => Self::Rerun,
            ("move", Some(queue)) => Self::Move(queue.to_owned()),
            ("reschedule", Some(at)) => {
                Self::Reschedule(at.parse().map_err(|_| format!("{at:?} is not a time such as 2026-01-31T08:00:00Z"))?)
            }
            ("reprioritise", Some(priority)) => Self::Reprioritise(
                priority
                    .parse()
                    .map_err(|_| format!("the priority {priority:?} is not a whole number from -32768 to 32767"))?,
            ),
            ("reschedule" | "move" | "reprioritise", None) => {
                return Err(format!("the action {name} needs an argument"));
            }
            ("retry" | "run_now" | "cancel" | "delete" | "discard" | "rerun", Some(_)) => {
                return Err(format!("the action {name} takes no argument"));
            }
            _ => return Err(format!("{name:?} is not an action that this version knows")),
        };
        action.validate().map(|()| action)
    }

    /// Refuses the name of a queue, or a time, that cannot be stored.
    pub fn validate(&self) -> Result<(), String> {
        match self {
            Self::Move(queue) if queue.is_empty() => Err("the name of the new queue is empty".to_owned()),
            Self::Move(queue) if queue.len() > MAX_QUEUE_BYTES => {
                Err(format!("the name of the new queue is longer than {MAX_QUEUE_BYTES} bytes"))
            }
            Self::Move(queue) if queue.contains('\0') => {
                Err("the name of the new queue contains a NUL character".to_owned())
            }
            Self::Move(queue) if is_pattern(queue) => Err(format!("the name of the new queue {HAS_A_STAR}")),
            Self::Reschedule(at) if (*at - Utc::now()).to_std().is_ok_and(|ahead| ahead > MAX_RESCHEDULE) => {
                Err(format!("jobs cannot be rescheduled to {at}, more than a hundred years from now"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it applies to jobs in this state.
    pub fn applies_to(&self, state: JobState) -> bool {
        match self {
            Self::Retry => state.is_waiting() || matches!(state, JobState::Cancelled | JobState::Discarded),
            Self::RunNow | Self::Reschedule(_) | Self::Discard | Self::Reprioritise(_) | Self::Move(_) => {
                state.is_waiting()
            }
            Self::Cancel => !state.is_finished(),
            Self::Delete => state != JobState::Running,
            Self::Rerun => state.is_finished(),
        }
    }

    /// The states in which all jobs that match a filter are acted on. A job that is due needs no retry.
    pub fn states(&self) -> impl Iterator<Item = JobState> + '_ {
        let is_needed = |state: &JobState| match self {
            Self::Retry | Self::RunNow => !matches!(state, JobState::Available | JobState::Held),
            _ => true,
        };
        JobState::ALL.into_iter().filter(|state| self.applies_to(*state)).filter(is_needed)
    }
}

/// What an operator's command did to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operated {
    /// The job was changed.
    Done,
    /// The job was enqueued again, under this id.
    Enqueued(JobId),
    /// No such job.
    NotFound,
    /// The job is in a state to which the command does not apply.
    Refused(JobState),
    /// The job uses a feature of a later version. The command must be given to that version's program.
    Newer,
}

impl Operated {
    /// Whether the job was changed or enqueued again.
    pub fn has_changed(self) -> bool {
        matches!(self, Self::Done | Self::Enqueued(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_as_they_are_stored() {
        let all = [
            Action::Retry,
            Action::RunNow,
            Action::Reschedule(DateTime::from_timestamp_micros(1_769_846_400_000_001).unwrap()),
            Action::Reschedule(DateTime::<Utc>::MIN_UTC),
            Action::Cancel,
            Action::Delete,
            Action::Discard,
            Action::Reprioritise(-3),
            Action::Move("mail".to_owned()),
            Action::Rerun,
        ];
        for action in all {
            assert_eq!(Action::parse(action.as_str(), action.argument().as_deref()), Ok(action));
        }
    }

    #[test]
    fn wrong_actions_are_refused_with_the_reason() {
        for (name, argument, part) in [
            ("explode", None, "not an action"),
            ("retry", Some("1"), "takes no argument"),
            ("move", None, "needs an argument"),
            ("move", Some(""), "is empty"),
            ("move", Some("a\0"), "NUL"),
            ("reprioritise", Some("40000"), "from -32768 to 32767"),
            ("reschedule", None, "needs an argument"),
            ("reschedule", Some("tomorrow"), "is not a time"),
            ("reschedule", Some("9999-01-01T00:00:00Z"), "a hundred years"),
        ] {
            assert!(Action::parse(name, argument).unwrap_err().contains(part), "{name}");
        }
    }
}
