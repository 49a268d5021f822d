//! Schedules as operators see and change them. Each change also adds a row to the audit, in the same transaction.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{DeclaredSchedule, Pause, ScheduledJob, StorageResult};
use crate::job_id::JobId;
use crate::new_job::NewJob;
use crate::schedule::CatchUp;
use crate::state::JobState;

/// A schedule with all that is known about it.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduleRecord {
    /// Its name. For schedules that code declares it is the kind.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA time zone.
    pub timezone: String,
    /// How missed ticks are treated.
    pub catch_up: CatchUp,
    /// The newest tick that was handled. For a new schedule: when it was stored.
    pub last_tick: DateTime<Utc>,
    /// What its jobs get, instead of the defaults of the kind.
    #[serde(flatten)]
    pub job: ScheduledJob,
    /// The pause, while the schedule is paused.
    pub paused: Option<Pause>,
    /// The operator who added it. `None`: code declares it, or SQL inserted it.
    pub added_by: Option<String>,
    /// The operator who changed it. `None`: it is as it was declared or added.
    pub changed_by: Option<String>,
    /// When it was changed.
    pub changed_at: Option<DateTime<Utc>>,
    /// What the code declares, if an operator has changed it.
    pub declared: Option<DeclaredSchedule>,
    /// Its newest job. `None`: it has not run yet.
    pub last_run: Option<LastRun>,
    /// Whether only a later version of this program understands it.
    pub newer: bool,
}

/// The newest job that a tick of a schedule, or an operator, has enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LastRun {
    /// The job.
    pub job: JobId,
    /// When it was enqueued.
    pub at: DateTime<Utc>,
    /// Its state. `None`: it has been deleted since.
    pub state: Option<JobState>,
}

impl ScheduleRecord {
    /// Why another schedule with its name cannot be added, in one sentence.
    pub fn exists_text(&self) -> String {
        let Self { name, kind, expression, timezone, .. } = self;
        format!(
            "the schedule `{name}` exists already: it enqueues jobs of kind `{kind}` at `{expression}` ({timezone})"
        )
    }
}

/// A schedule that an operator adds.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// Its name, which no other schedule has.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA time zone.
    pub timezone: String,
    /// How missed ticks are treated.
    pub catch_up: CatchUp,
    /// What its jobs get, instead of the defaults of the kind.
    pub job: ScheduledJob,
}

/// A change of a schedule. What is `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct ScheduleChange {
    /// The cron expression.
    pub expression: Option<String>,
    /// The IANA time zone.
    pub timezone: Option<String>,
    /// How missed ticks are treated.
    pub catch_up: Option<CatchUp>,
}

/// What a command did to a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scheduled {
    /// It was changed.
    Done,
    /// There is no such schedule.
    NotFound,
    /// Nothing was changed, because the schedule was in this state already.
    Unchanged,
    /// Another schedule has the name.
    Exists,
    /// Code declares the schedule, so it can only be paused. Workers would store it again.
    Declared,
    /// The schedule uses a feature of a later version. The command must be given to that version's program.
    Newer,
}

/// What operators do with schedules. The `actor` is the name of the person or program that makes the change.
#[async_trait]
pub trait ScheduleSettings: Send + Sync + 'static {
    /// All schedules by name, and the database's time.
    async fn list_schedules(&self) -> StorageResult<(Vec<ScheduleRecord>, DateTime<Utc>)>;

    /// Adds a schedule. It starts now. Workers notice it within five seconds (a minute if there was none).
    async fn add_schedule(&self, schedule: &NewSchedule, actor: &str) -> StorageResult<Scheduled>;

    /// Changes a schedule. Workers do not overwrite what an operator has changed. With another expression or time zone
    /// it continues from now.
    async fn change_schedule(&self, name: &str, change: &ScheduleChange, actor: &str) -> StorageResult<Scheduled>;

    /// Makes a changed schedule again as the code declares it. It continues from now.
    async fn reset_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled>;

    /// Pauses a schedule: it does not tick.
    async fn pause_schedule(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<Scheduled>;

    /// Ends the pause. Then its `catch_up` applies to the missed ticks.
    async fn resume_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled>;

    /// Removes a schedule that an operator has added.
    async fn remove_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled>;

    /// Enqueues these jobs of a schedule outside its ticks: one for `trigger`, those of past ticks for `backfill`,
    /// which is the `action`. Its last tick does not change. All jobs are enqueued, or none.
    async fn enqueue_for_schedule(
        &self,
        name: &str,
        jobs: &[NewJob],
        action: &str,
        actor: &str,
    ) -> StorageResult<Scheduled>;
}
