//! Reads everything that `top` shows.

use std::time::{Duration, Instant};

use diesel_jobs_core::history::KindRate;
use diesel_jobs_core::storage::{QueueSettings, StorageResult};
use diesel_jobs_core::{Freeze, LeasedJob, Stats, WorkerRecord};
use diesel_jobs_storage::Database;

/// The time that the rates are about: the last whole minutes.
pub(super) const RATES: Duration = Duration::from_secs(5 * 60);
/// The most jobs that are shown as running.
const JOBS: usize = 200;

/// What is in the database.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) stats: Stats,
    pub(super) rates: Vec<KindRate>,
    pub(super) workers: Vec<WorkerRecord>,
    pub(super) jobs: Vec<LeasedJob>,
    pub(super) settings: Vec<QueueSettings>,
    pub(super) frozen: Option<Freeze>,
}

/// What was read, or why nothing was.
pub(super) type Read = Result<Box<Snapshot>, String>;

pub(super) async fn read(database: &Database) -> Read {
    all(database).await.map(Box::new).map_err(|error| error.to_string())
}

async fn all(database: &Database) -> StorageResult<Snapshot> {
    let operator = &database.operator;
    Ok(Snapshot {
        frozen: database.storage.check_schema().await?.frozen,
        stats: operator.stats().await?,
        rates: operator.rates(RATES).await?,
        workers: operator.workers().await?,
        jobs: operator.leased(None, JOBS).await?,
        settings: operator.queues().await?,
        at: Instant::now(),
    })
}
