//! The registration of workers, and their heartbeats.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StorageResult;
use crate::asked::Asked;
use crate::declared_schedule::Declarations;
use crate::discarded::DiscardRule;
use crate::job_id::JobId;
use crate::lease::{Lease, WorkerId};

/// A worker process. It is registered at its start and kept alive by heartbeats.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Identifies this start of this process.
    pub id: WorkerId,
    /// The name of the machine.
    pub host: String,
    /// The id of the process.
    pub pid: u32,
    /// The queues it serves, by name or by pattern, such as `tenant-*`.
    pub queues: Vec<String>,
    /// The version of its program. `None` if the program does not say it.
    pub version: Option<String>,
    /// The queues with the number of jobs that it runs at once. An operator may set another number.
    pub slots: Vec<(String, usize)>,
    /// How many jobs of all its queues together it runs at once. `None`: it has no such limit.
    pub slots_total: Option<usize>,
    /// The kinds that its program knows.
    pub kinds: Vec<String>,
    /// The schedules that its program declares.
    pub schedules: Declarations,
    /// What its program enqueues when jobs of these kinds are discarded. Kinds without a rule enqueue nothing.
    pub discard_rules: Vec<DiscardRule>,
    /// How long after its last heartbeat a rescue may make its jobs available again.
    pub lease: Duration,
}

impl WorkerInfo {
    /// A worker without a name, queues and kinds.
    pub fn new(id: WorkerId, lease: Duration) -> Self {
        let (queues, slots, kinds, discard_rules) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (host, schedules) = (String::new(), Declarations::new());
        let (version, slots_total) = (None, None);
        Self { id, host, pid: 1, queues, version, slots, slots_total, kinds, schedules, discard_rules, lease }
    }
}

/// The database's reply to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The database's time.
    pub at: DateTime<Utc>,
    /// Whether the database is [frozen](crate::Installation::frozen).
    pub frozen: bool,
    /// What an operator asks of this worker.
    pub asked: Option<Asked>,
}

/// A worker's own connection for heartbeats, on a separate thread.
#[async_trait]
pub trait Heartbeat: Send {
    /// Tells the database that the worker is alive, whether it drains, and how long after this heartbeat it counts as
    /// dead, instead of [as long as before](WorkerInfo::lease). If a worker that drains dies, a rescue
    /// [releases](super::RescuePolicy::decide) its jobs. Returns `None` if it was declared dead: then all its leases
    /// are lost.
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>>;

    /// Returns the valid leases of this worker: job and lease number.
    async fn leases(&mut self) -> StorageResult<Vec<(JobId, i32)>>;

    /// Releases the jobs of these leases, as [`Storage::finish`](super::Storage::finish) does, while the worker's
    /// runtime is blocked. Returns the jobs that it has released.
    async fn release(&mut self, leases: &[Lease]) -> StorageResult<Vec<JobId>>;
}
