//! What operators do to limits, slots, sequences and unique keys. Each change adds a row to the audit, in the same transaction.

use async_trait::async_trait;
use serde::Serialize;

use super::key_of_job::KeyOfJob;
use super::limit_setting::LimitSetting;
use super::{Count, StorageResult};
use crate::job_id::JobId;
use crate::state::JobState;

/// The limit slot of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "slot", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SlotOfJob {
    /// The job has none.
    None,
    /// The job needs it: it is available, or it runs under a lease that stands.
    Needed {
        /// The name of the limit.
        name: String,
        /// The key.
        key: String,
        /// Available or running.
        state: JobState,
    },
    /// It is that of a sequence.
    Sequence {
        /// The name of the sequence.
        name: String,
        /// The key.
        key: String,
        /// Whether the job was discarded, which halts the sequence.
        halted: bool,
    },
    /// The job does not need it any more.
    Left {
        /// The name of the limit.
        name: String,
        /// The key.
        key: String,
    },
}

impl SlotOfJob {
    /// Decides from what a storage has read. `state`: available or running, if the job needs its slot for that.
    #[doc(hidden)]
    pub fn of(name: String, key: String, state: Option<JobState>, is_sequence: bool, halted: bool) -> Self {
        match state {
            _ if is_sequence || halted => Self::Sequence { name, key, halted },
            Some(state) => Self::Needed { name, key, state },
            None => Self::Left { name, key },
        }
    }

    /// What an answer to the command to release the slot of this job says, in one sentence.
    pub fn text(&self, id: JobId) -> String {
        match self {
            Self::None => format!("job {id} has no limit slot"),
            Self::Needed { name, key, state } => format!(
                "job {id} is {state} and needs its slot of the limit `{name}`, key {key}; `worker cancel {id}` ends the job and frees the slot"
            ),
            Self::Sequence { name, key, halted: true } => format!(
                "job {id} was discarded, which halts the sequence `{name}`, key {key}; `worker sequences skip {name} '{key}'` goes on without it"
            ),
            Self::Sequence { name, key, halted: false } => format!(
                "it is the turn of job {id} in the sequence `{name}`, key {key}; `worker cancel {id}` ends the job, and the next one starts"
            ),
            Self::Left { name, key } => {
                format!("the slot of job {id} in the limit `{name}`, key {key}, is free")
            }
        }
    }
}

/// What operators do to limits, slots and unique keys. The `actor` is the name of the person or program that makes the change.
#[async_trait]
pub trait FlowControl: Send + Sync + 'static {
    /// The limits for which an operator has set a number, by name.
    async fn limit_settings(&self) -> StorageResult<Vec<LimitSetting>>;

    /// Sets how many jobs of each key of this limit run at once, at most [`MOST_AT_ONCE`](crate::MOST_AT_ONCE), instead of what the code
    /// says. 0: none starts. It applies to jobs that are held already, too. The next pass of admission follows it. Jobs that are
    /// available or running are never stopped, so a lower number is reached when they end. A sequence is refused. Returns `false` if
    /// this was the number already; then the earlier `by` and `reason` stay.
    async fn set_limit(&self, name: &str, most: u32, actor: &str, reason: Option<&str>) -> StorageResult<bool>;

    /// Removes this number, so that what the code says applies again. Returns `false` if none was set.
    async fn reset_limit(&self, name: &str, actor: &str) -> StorageResult<bool>;

    /// The limit slot of a job, and whether the job needs it.
    async fn slot(&self, job: JobId) -> StorageResult<SlotOfJob>;

    /// Frees the limit slot of a job that does not need it: the job has ended, waits, or its worker is dead. Returns what it has found:
    /// only [`SlotOfJob::Left`] was freed.
    async fn release_slot(&self, job: JobId, actor: &str) -> StorageResult<SlotOfJob>;

    /// The unique key of a job.
    async fn unique_key(&self, job: JobId) -> StorageResult<Option<KeyOfJob>>;

    /// Takes the unique key away from a job, which goes on. The next enqueue with this key inserts a job. Returns the key, or `None` if
    /// the job has none.
    async fn release_key(&self, job: JobId, actor: &str) -> StorageResult<Option<KeyOfJob>>;

    /// How many sequences are halted.
    async fn count_halted(&self) -> StorageResult<Count>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_says_who_needs_it() {
        let of = |state, is_sequence, halted| {
            SlotOfJob::of("stripe".to_owned(), "[7]".to_owned(), state, is_sequence, halted).text(JobId(3))
        };
        assert!(of(Some(JobState::Running), false, false).starts_with("job 3 is running and needs its slot"));
        assert!(of(None, false, false).ends_with("is free"));
        assert!(of(Some(JobState::Running), true, false).contains("it is the turn of job 3"));
        assert!(of(None, false, true).contains("worker sequences skip stripe '[7]'"));
        assert_eq!(SlotOfJob::None.text(JobId(3)), "job 3 has no limit slot");
    }
}
