//! What the scheduler needs from a database.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::StorageResult;
use crate::job_options::JobOptions;
use crate::new_job::{NewJob, RunAt};
use crate::rules::Rules;
use crate::schedule::CatchUp;

/// A schedule as it is stored.
#[derive(Clone, Debug)]
pub struct StoredSchedule {
    /// Its name, unique; the kind for schedules declared in code.
    pub name: String,
    /// The kind of job it enqueues.
    pub kind: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA time zone.
    pub timezone: String,
    /// How missed ticks are treated.
    pub catch_up: CatchUp,
    /// The newest tick that was handled.
    pub last_tick: DateTime<Utc>,
    /// Paused schedules do not tick.
    pub paused: bool,
    /// Whether an operator has added it.
    pub is_added: bool,
    /// What its jobs get, instead of the defaults of the kind.
    pub job: ScheduledJob,
}

/// What the jobs of a schedule get, instead of the defaults of the kind. Only an operator sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScheduledJob {
    /// The arguments, as JSON text. `None`: no arguments.
    pub args: Option<String>,
    /// The queue. `None`: the kind's.
    pub queue: Option<String>,
    /// The priority. `None`: the kind's.
    pub priority: Option<i16>,
    /// How many attempts. `None`: as the kind says.
    pub max_attempts: Option<u16>,
}

impl ScheduledJob {
    /// The job of this kind for the tick at this time. `options` are those of the kind. If the job lacks arguments
    /// that a limit or a unique key names, all such jobs have the same key.
    pub fn at(&self, kind: &str, options: &JobOptions, run_at: RunAt) -> NewJob {
        let mut job = NewJob::raw(kind.to_owned(), self.args.clone().unwrap_or_else(|| "{}".to_owned()));
        job.queue = self.queue.clone().map_or_else(|| options.queue.into(), Into::into);
        job.priority = self.priority.unwrap_or(options.priority);
        job.max_attempts = self.max_attempts.unwrap_or(options.max_attempts);
        job.run_at = run_at;
        job.expires = options.expires;
        // The attribute has refused rules that do not fit together.
        job.rules =
            Rules::of(options.rules.iter().filter_map(|rule| rule.of_any(&job.args)).map(Ok)).unwrap_or_default();
        job.unique = options.unique.and_then(|rule| rule.of_tick(job.kind.clone(), &job.args)).map(Box::new);
        if let Some(sequence) = job.unique.as_ref().and_then(|unique| unique.sequence()) {
            job.rules = sequence;
        }
        job
    }
}

/// A schedule as code declares it, with the job of one tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredSchedule {
    /// Its name: the kind.
    #[serde(skip)]
    pub name: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA time zone.
    pub timezone: String,
    /// How missed ticks are treated.
    pub catch_up: CatchUp,
}

/// Schedules as they are stored.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Stores the schedules that the code declares. New ones start now, and changed ones continue from now. Others are
    /// not changed, because a newer program may have declared them. What an operator has added or changed stays, and
    /// what the code declares is stored beside it. Returns `false` if one could not be changed yet, because another
    /// session has locked its row.
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool>;

    /// All schedules, and the database's time.
    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)>;

    /// Moves a schedule to the new `last_tick` and enqueues the jobs of its ticks, in one transaction. It does so only
    /// if the stored `last_tick` is still that of `schedule`. Returns `false` if another worker has changed it, or
    /// another session has locked the row.
    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool>;
}
