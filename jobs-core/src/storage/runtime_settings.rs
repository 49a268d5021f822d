//! What operators change while workers run: paused queues and kinds, slots, retention, and what they ask of workers.
//!
//! Workers read the settings once a second. Each change also adds a row to the audit, in the same transaction.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

use super::{MOST_AHEAD, ScheduleSettings, StorageResult};
use crate::asked::Asked;
use crate::installation::check_words;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::outcome::Keep;
use crate::queue_pattern::check_one_queue;
use crate::state::JobState;
use crate::storage_error::StorageError;

/// Most slots that an operator can set.
pub const MOST_SLOTS: u32 = 10_000;
/// The longest name of a queue, kind or schedule, in bytes.
const LONGEST_NAME: usize = 200;

/// A pause: since when, by whom and why. All three are missing if it was made by SQL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Since when.
    pub at: Option<DateTime<Utc>>,
    /// Who paused it.
    pub by: Option<String>,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("paused")?;
        if let Some(at) = self.at {
            write!(f, " since {}", at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1))?;
        }
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// The settings of a queue. A queue without settings is not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueSettings {
    /// Its name.
    pub name: String,
    /// The pause, while the queue is paused.
    pub paused: Option<Pause>,
    /// How many of its jobs each worker runs at once. `None`: as many as the worker was started with.
    pub slots: Option<u32>,
}

/// The settings of a kind. A kind without settings is not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindSettings {
    /// Its name.
    pub name: String,
    /// The pause, while the kind is paused.
    pub paused: Option<Pause>,
}

/// How long ended jobs are kept, instead of the time that the worker was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetentionSetting {
    /// The kind. `None`: all kinds that have no setting of their own.
    pub kind: Option<String>,
    /// Completed, cancelled or discarded.
    pub state: JobState,
    /// How long such jobs are kept.
    #[serde(rename = "keep_seconds", serialize_with = "keep_seconds")]
    pub keep: Keep,
}

/// Null means for ever.
fn keep_seconds<S: Serializer>(keep: &Keep, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds = match keep {
        Keep::Nothing => Some(0.0),
        Keep::For(time) => Some(time.as_secs_f64()),
        Keep::Forever => None,
    };
    seconds.serialize(serializer)
}

/// A job that a worker runs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunningJob {
    /// The id.
    pub id: JobId,
    /// The kind.
    pub kind: String,
    /// The queue.
    pub queue: String,
    /// The number of the attempt, from 1.
    pub attempt: u16,
    /// When it was claimed. A prefetched job starts later.
    pub claimed_at: DateTime<Utc>,
}

/// What is said about jobs that run while no worker is alive, such as those of a queue that is drained.
pub const NO_WORKER_ENDS_JOBS: &str =
    "no worker is alive, so these jobs end only after a worker has started: `worker run`";

/// A halted sequence: none of its jobs starts, because one of them was discarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HaltedSequence {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: String,
    /// The discarded job. It may have been deleted since.
    pub job: JobId,
    /// Since when it is halted.
    pub at: DateTime<Utc>,
    /// How many jobs wait, up to [`MOST_AHEAD`] and one more.
    pub waiting: u32,
}

impl HaltedSequence {
    /// How many jobs wait, in words.
    pub fn waiting_text(&self) -> String {
        match self.waiting {
            0 => "no job waits behind it".to_owned(),
            1 => "1 job waits behind it".to_owned(),
            waiting if waiting > MOST_AHEAD => format!("more than {MOST_AHEAD} jobs wait behind it"),
            waiting => format!("{waiting} jobs wait behind it"),
        }
    }
}

/// What operators change while workers run. The `actor` is the name of the person or program that makes the change.
#[async_trait]
pub trait RuntimeSettings: ScheduleSettings {
    /// The queues with settings, by name.
    async fn queues(&self) -> StorageResult<Vec<QueueSettings>>;

    /// Pauses a queue: from now on no worker claims its jobs. Running jobs continue. Workers release its prefetched
    /// jobs within a second. Returns `false` if it was paused already; then the earlier `by` and `reason` stay.
    async fn pause_queue(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<bool>;

    /// Ends the pause of a queue. Workers claim its jobs within a second. Returns `false` if it was not paused.
    async fn resume_queue(&self, name: &str, actor: &str) -> StorageResult<bool>;

    /// Sets how many jobs of a queue each worker runs at once, at most [`MOST_SLOTS`]. `None`: as many as the worker
    /// was started with. Workers follow within a second. Running jobs are never stopped, so a lower number is reached
    /// when they end. Returns `false` if this was the number already.
    async fn set_slots(&self, queue: &str, slots: Option<u32>, actor: &str) -> StorageResult<bool>;

    /// How many jobs of a queue run now, including prefetched ones.
    async fn running_in(&self, queue: &str) -> StorageResult<u64>;

    /// The kinds with settings, by name.
    async fn kinds(&self) -> StorageResult<Vec<KindSettings>>;

    /// Pauses a kind: workers notice it within a second, and from then on claim none of its jobs. Running jobs
    /// continue. Returns `false` if it was paused already; then the earlier `by` and `reason` stay.
    async fn pause_kind(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<bool>;

    /// Ends the pause of a kind. Workers claim its jobs within a second. Returns `false` if it was not paused.
    async fn resume_kind(&self, name: &str, actor: &str) -> StorageResult<bool>;

    /// The halted sequences, by name and key, at most `limit`.
    async fn halted_sequences(&self, limit: usize) -> StorageResult<Vec<HaltedSequence>>;

    /// Continues a halted sequence without its discarded job. Returns `false` if it is not halted.
    async fn skip_sequence(&self, name: &str, key: &str, actor: &str) -> StorageResult<bool>;

    /// The retention that operators have set, those for all kinds first.
    async fn retention(&self) -> StorageResult<Vec<RetentionSetting>>;

    /// Sets how long jobs that end in this state from now on are kept. Returns `false` if it was set so already.
    async fn set_retention(&self, setting: &RetentionSetting, actor: &str) -> StorageResult<bool>;

    /// Removes such a setting, so that what the workers were started with applies again. Returns `false` if there was
    /// none.
    async fn unset_retention(&self, kind: Option<&str>, state: JobState, actor: &str) -> StorageResult<bool>;

    /// Asks a worker to claim nothing more, or to stop. It reads this with its next heartbeat. A worker that was asked
    /// to stop cannot be asked for less. Returns `false` if there is no such worker.
    async fn ask_worker(&self, worker: WorkerId, asked: Asked, actor: &str) -> StorageResult<bool>;

    /// What a worker runs now, longest first.
    async fn running(&self, worker: WorkerId) -> StorageResult<Vec<RunningJob>>;
}

/// Fails unless a setting for this name can be stored, and the actor and the reason can be shown in one line each.
#[doc(hidden)]
pub fn check_change(what: &str, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<()> {
    let checked = check_name(what, name)
        .and_then(|()| check_words("the actor", actor))
        .and_then(|()| reason.map_or(Ok(()), |reason| check_words("the reason", reason)));
    checked.map_err(StorageError::Config)
}

/// Fails unless a queue, a kind or a schedule may have this name.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("the name of a {what} must not be empty"));
    }
    if name.len() > LONGEST_NAME {
        return Err(format!("the name of a {what} must not be longer than {LONGEST_NAME} bytes"));
    }
    if name.contains('\0') {
        return Err(format!("the name of a {what} must not contain a NUL character, which databases do not store"));
    }
    if what == "queue" { check_one_queue(name) } else { Ok(()) }
}

/// Fails if there are too many slots.
#[doc(hidden)]
pub fn check_slots(slots: Option<u32>) -> StorageResult<()> {
    match slots {
        Some(slots) if slots > MOST_SLOTS => Err(StorageError::Config(format!(
            "{slots} slots are too many: a queue has from 0 to {MOST_SLOTS} slots in each worker"
        ))),
        _ => Ok(()),
    }
}

/// Fails unless ended jobs can be in this state, and the time can be stored.
#[doc(hidden)]
pub fn check_retention(setting: &RetentionSetting) -> StorageResult<()> {
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(36_500 * 24 * 3600);
    if !setting.state.is_finished() {
        return Err(StorageError::Config(format!(
            "jobs that are {} have no retention; it is for completed, cancelled or discarded jobs",
            setting.state
        )));
    }
    match setting.keep {
        Keep::For(time) if time > LONGEST => Err(StorageError::Config(
            "the retention must not be longer than 36500 days; `forever` has no limit".to_owned(),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_says_what_is_known_about_it() {
        let at = DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").ok().map(|at| at.to_utc());
        let pause = Pause { at, by: Some("ada".to_owned()), reason: Some("the mail server is down".to_owned()) };
        assert_eq!(pause.to_string(), "paused since 2026-01-02 03:04:05Z by ada: the mail server is down");
        assert_eq!(Pause::default().to_string(), "paused");
    }

    #[test]
    fn names_that_no_job_can_have_are_refused() {
        assert!(check_change("queue", "mail", "ada", Some("because")).is_ok());
        for wrong in ["", "a\0b", &"x".repeat(201)] {
            assert!(check_change("queue", wrong, "ada", None).is_err(), "{wrong:?}");
        }
        assert!(check_change("queue", "mail", "", None).unwrap_err().to_string().contains("the actor"));
        assert!(check_change("queue", "mail", "ada", Some("a\nb")).unwrap_err().to_string().contains("the reason"));
    }

    #[test]
    fn only_ended_jobs_have_a_retention() {
        let of = |state, keep| check_retention(&RetentionSetting { kind: None, state, keep });
        assert!(of(JobState::Discarded, Keep::Forever).is_ok());
        assert!(of(JobState::Running, Keep::Nothing).is_err());
        assert!(of(JobState::Completed, Keep::For(std::time::Duration::MAX)).is_err());
        assert!(check_slots(Some(MOST_SLOTS)).is_ok() && check_slots(Some(MOST_SLOTS + 1)).is_err());
    }
}
