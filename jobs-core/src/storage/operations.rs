//! Operations: actions on all jobs that match a filter, in batches.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::action::Action;
use super::filter::JobFilter;
use super::page::Count;
use crate::job_id::JobId;
use crate::record::JobRecord;
use crate::storage_error::StorageError;

/// The most jobs that one step changes.
pub const STEP: usize = 1000;
/// How many jobs a step examines, per table.
pub const EXAMINED_PER_STEP: usize = 5_000;
/// How long a step waits for jobs that other transactions have locked. Then it skips them.
pub const LONGEST_WAIT_FOR_LOCKS: std::time::Duration = std::time::Duration::from_secs(3);
/// The pause between two steps, so that an operation does not slow down other sessions.
pub const BETWEEN_STEPS: std::time::Duration = std::time::Duration::from_millis(25);

/// The id of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct OperationId(pub i64);

impl std::fmt::Display for OperationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An action on all jobs that match a filter, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationRecord {
    /// The id.
    pub id: OperationId,
    /// The name of the action.
    pub action: String,
    /// The new priority or queue.
    pub argument: Option<String>,
    /// The filter in its textual form. If this version cannot read it, it is as it is stored.
    pub filter: String,
    /// Who started it.
    pub actor: String,
    /// When it was started.
    pub created_at: DateTime<Utc>,
    /// All jobs with a lower id are done.
    pub next_id: JobId,
    /// It ends with this job.
    pub last_id: JobId,
    /// How many jobs it has examined.
    pub examined: i64,
    /// How many jobs it has changed.
    pub changed: i64,
    /// When it ended, or was cancelled.
    pub finished_at: Option<DateTime<Utc>>,
    /// Who cancelled it.
    pub cancelled_by: Option<String>,
    /// What went wrong: jobs that were left out, or why it has ended early.
    pub problem: Option<String>,
}

/// What an action on all jobs that match would do.
#[derive(Clone, Serialize)]
pub struct Preview {
    /// How many jobs it would change.
    pub count: Count,
    /// Some of them, the newest ones.
    pub sample: Vec<JobRecord>,
}

/// The part of operations that workers do, too.
#[async_trait]
pub trait Operations: Send + Sync + 'static {
    /// Does the next batch of an open operation that no other session works on: of this one, or of the oldest. It
    /// changes at most `limit` jobs, in one transaction that also stores how far the operation is. So an operation
    /// continues after a crash, and nothing is done twice. Returns `None` if there is none to do.
    async fn step_operation(
        &self,
        only: Option<OperationId>,
        limit: usize,
    ) -> Result<Option<OperationRecord>, StorageError>;
}

/// The filter of an action on all jobs that match: only states to which the action applies. Fails if there are none.
pub fn filter_for(action: &Action, filter: &JobFilter) -> Result<JobFilter, String> {
    action.validate()?;
    filter.validate()?;
    let states: Vec<_> = action.states().filter(|state| filter.takes(*state)).collect();
    if states.is_empty() {
        let named: Vec<&str> = action.states().map(|state| state.as_str()).collect();
        return Err(format!(
            "{} applies to jobs that are {}, and the filter takes none of these",
            action.as_str(),
            named.join(", ")
        ));
    }
    Ok(JobFilter { states, ..filter.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::JobState;

    #[test]
    fn an_action_takes_only_states_to_which_it_applies() {
        let of = |text: &str, action: &Action| filter_for(action, &text.parse().unwrap()).map(|filter| filter.states);
        assert_eq!(of("state:running,discarded", &Action::Retry), Ok(vec![JobState::Discarded]));
        assert_eq!(
            of("finished_before:1h", &Action::Delete),
            Ok(vec![JobState::Completed, JobState::Cancelled, JobState::Discarded])
        );
        assert!(of("state:running", &Action::Delete).unwrap_err().contains("applies to jobs that are available"));
    }
}
