//! What the scheduler needs of a database.

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
    /// The IANA zone.
    pub timezone: String,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
    /// The newest tick that was dealt with.
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
    /// The IANA zone.
    pub timezone: String,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
}

/// Schedules as they are stored.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Stores the schedules that code declares: new ones start now, changed ones go on from now. Others are left alone: a
    /// newer program may have declared them. `false`: one is still to be changed, because another session has locked its row.
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool>;

    /// All schedules, and the database's time.
    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)>;

    /// Moves a schedule on and enqueues the jobs of its ticks, in one transaction, if its `last_tick` is still
    /// the given one. `false`: another worker did, or another session has locked its row.
    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool>;
}
