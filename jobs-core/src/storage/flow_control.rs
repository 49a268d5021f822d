//! What operators do to limits, permits, sequences and unique keys. Each change adds a row to the audit, in the same
//! transaction.

use async_trait::async_trait;
use serde::Serialize;

use super::key_of_job::KeyOfJob;
use super::limit_setting::LimitSetting;
use super::{Count, StorageResult};
use crate::job_id::JobId;
use crate::rules::keyed;
use crate::shell::{argument, word};
use crate::state::JobState;

/// A permit: one of the limits that a job counts in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitPermit {
    /// The name of the limit.
    pub name: String,
    /// The key.
    pub key: String,
}

/// The permits of a job. A job with several limits has a permit in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "permit", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PermitOfJob {
    /// The job has none.
    None,
    /// The job needs it: it is available, or it runs under a valid lease.
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
    /// The job does not need them any more.
    Left {
        /// All of them but that of a sequence.
        limits: Vec<LimitPermit>,
    },
}

/// A permit that a storage has found.
#[doc(hidden)]
#[derive(Debug)]
pub struct FoundPermit {
    pub permit: LimitPermit,
    /// Whether it is that of the sequence in which the job is.
    pub is_sequence: bool,
    pub halted: bool,
}

impl PermitOfJob {
    /// Decides from what a storage has read. `state`: available or running, if the job is in this state and needs its
    /// permit.
    #[doc(hidden)]
    pub fn of(permits: Vec<FoundPermit>, state: Option<JobState>) -> Self {
        let (of_sequence, mut limits): (Vec<_>, Vec<_>) =
            permits.into_iter().partition(|permit| permit.is_sequence || permit.halted);
        match (state, of_sequence.into_iter().next(), limits.is_empty()) {
            (_, None, true) => Self::None,
            (None, _, false) => Self::Left { limits: limits.into_iter().map(|found| found.permit).collect() },
            (_, Some(FoundPermit { permit: LimitPermit { name, key }, halted, .. }), _) => {
                Self::Sequence { name, key, halted }
            }
            (Some(state), None, false) => {
                let LimitPermit { name, key } = limits.swap_remove(0).permit;
                Self::Needed { name, key, state }
            }
        }
    }

    /// The answer of `worker release-permit` for this job, in one sentence.
    pub fn text(&self, id: JobId) -> String {
        match self {
            Self::None => format!("job {id} has no permit"),
            Self::Needed { name, key, state } => format!(
                "job {id} is {state} and needs its permit of the limit `{name}`, {}; `worker cancel {id}` ends the job and frees the permit",
                keyed(key)
            ),
            Self::Sequence { name, key, halted: true } => format!(
                "job {id} was discarded, which halts the sequence `{name}`, {}; `worker sequences skip {} {}` continues without it",
                keyed(key),
                argument(name),
                word(key)
            ),
            Self::Sequence { name, key, halted: false } => format!(
                "it is the turn of job {id} in the sequence `{name}`, {}; `worker cancel {id}` ends the job, and the next one starts",
                keyed(key)
            ),
            Self::Left { limits } => {
                let named: Vec<String> =
                    limits.iter().map(|permit| format!("`{}`, {}", permit.name, keyed(&permit.key))).collect();
                match &*named {
                    [one] => format!("the permit of job {id} in the limit {one}, is free"),
                    several => format!("the permits of job {id} in the limits {}, are free", several.join(", and ")),
                }
            }
        }
    }
}

/// What operators do to limits, permits and unique keys. The `actor` is the name of the person or program that makes
/// the change.
#[async_trait]
pub trait FlowControl: Send + Sync + 'static {
    /// The limits for which an operator has set a number, by name.
    async fn limit_settings(&self) -> StorageResult<Vec<LimitSetting>>;

    /// Sets how many jobs of each key of this limit run at once, at most [`MOST_AT_ONCE`](crate::MOST_AT_ONCE), instead
    /// of what the code says. 0: none starts. It applies to jobs that are held already, too. The next pass of admission
    /// follows it. Jobs that are available or running are never stopped, so a lower number is reached when they end. A
    /// sequence is refused. Returns `false` if this was the number already; then the earlier `by` and `reason` stay.
    async fn set_limit(&self, name: &str, most: u32, actor: &str, reason: Option<&str>) -> StorageResult<bool>;

    /// Removes this number, so that what the code says applies again. Returns `false` if none was set.
    async fn reset_limit(&self, name: &str, actor: &str) -> StorageResult<bool>;

    /// The permits of a job, and whether the job needs them.
    async fn permit(&self, job: JobId) -> StorageResult<PermitOfJob>;

    /// Frees the permits of a job that does not need them: the job has ended, waits, or its worker is dead. Returns
    /// what it has found: only those of [`PermitOfJob::Left`] were freed.
    async fn release_permit(&self, job: JobId, actor: &str) -> StorageResult<PermitOfJob>;

    /// The unique key of a job.
    async fn unique_key(&self, job: JobId) -> StorageResult<Option<KeyOfJob>>;

    /// Takes the unique key away from a job, which continues. The next enqueue with this key inserts a job. Returns the
    /// key, or `None` if the job has none.
    async fn release_key(&self, job: JobId, actor: &str) -> StorageResult<Option<KeyOfJob>>;

    /// How many sequences are halted.
    async fn count_halted(&self) -> StorageResult<Count>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_says_who_needs_it() {
        let found = |name: &str, is_sequence, halted| {
            let permit = LimitPermit { name: name.to_owned(), key: "[7]".to_owned() };
            FoundPermit { permit, is_sequence, halted }
        };
        let of = |state, is_sequence, halted| {
            PermitOfJob::of(vec![found("stripe", is_sequence, halted)], state).text(JobId(3))
        };
        assert!(of(Some(JobState::Running), false, false).starts_with("job 3 is running and needs its permit"));
        assert!(of(None, false, false).ends_with("is free"));
        assert!(of(Some(JobState::Running), true, false).contains("it is the turn of job 3"));
        assert!(of(None, false, true).contains("worker sequences skip stripe '[7]'"));
        assert_eq!(PermitOfJob::of(Vec::new(), None).text(JobId(3)), "job 3 has no permit");
        let several = || vec![found("api", false, false), found("orders", true, false), found("stripe", false, false)];
        let text = PermitOfJob::of(several(), None).text(JobId(3));
        assert_eq!(text, "the permits of job 3 in the limits `api`, key [7], and `stripe`, key [7], are free");
        let running = PermitOfJob::of(several(), Some(JobState::Running));
        assert!(matches!(running, PermitOfJob::Sequence { halted: false, .. }), "{running:?}");
    }
}
