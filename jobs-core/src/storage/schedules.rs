//! What the scheduler needs from a database.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StorageResult;
use crate::new_job::NewJob;
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
}

/// A schedule as code declares it, with the job of one tick.
#[derive(Clone, Debug)]
pub struct DeclaredSchedule {
    /// Its name: the kind.
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
    /// Stores the schedules that the code declares. New ones start now, and changed ones go on from now. Others are not
    /// changed, because a newer program may have declared them. Returns `false` if one could not be changed yet,
    /// because another session has locked its row.
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool>;

    /// All schedules, and the database's time.
    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)>;

    /// Moves a schedule to the new `last_tick` and enqueues the jobs of its ticks, in one transaction. It does so only
    /// if the stored `last_tick` is still that of `schedule`. Returns `false` if another worker has changed it, or
    /// another session has locked the row.
    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool>;
}
