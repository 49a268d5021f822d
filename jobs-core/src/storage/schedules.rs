//! What the scheduler needs from a database.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::declared_schedule::DeclaredSchedule;
use crate::job_options::JobOptions;
use crate::new_job::{NewJob, RunAt};
use crate::rules::Rules;
use crate::schedule::CatchUp;
use crate::storage_error::StorageError;

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
    /// Whether an operator has changed it. Then it does not follow the code.
    pub is_changed: bool,
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

impl StoredSchedule {
    /// Whether it is as this code declares it, or as an operator wants it.
    pub fn follows(&self, declared: &DeclaredSchedule) -> bool {
        self.is_added
            || self.is_changed
            || declared.ticks_like(&self.expression, &self.timezone, self.catch_up.as_str())
    }
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
        let name = options.key_name(job.kind.clone());
        job.unique = options.unique.and_then(|rule| rule.of_tick(name, &job.args)).map(Box::new);
        if let Some(sequence) = job.unique.as_ref().and_then(|unique| unique.sequence()) {
            job.rules = sequence;
        }
        job
    }
}

/// All schedules as they are stored.
#[derive(Debug, Default)]
pub struct StoredSchedules {
    /// The schedules.
    pub all: Vec<StoredSchedule>,
    /// The database's time.
    pub now: DateTime<Utc>,
    /// Declared schedules that could not be changed yet, because another session has locked their rows.
    pub is_locked: bool,
    /// The names of the declared schedules that the database did not store, and why.
    pub refused: Vec<(String, StorageError)>,
}
