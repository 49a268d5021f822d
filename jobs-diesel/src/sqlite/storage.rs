//! The port on SQLite: each verb is one transaction of `queries/`.

use std::any::TypeId;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel_jobs_core::storage::{
    Beat, Claim, DeclaredSchedule, Heartbeat, Notifications, RescanReason, Rescanned, RescuePolicy, Rescued, Schedules,
    Storage, StorageResult, StoredSchedule, Transacted, Transaction, WorkerInfo,
};
use diesel_jobs_core::{ClaimedJob, Finish, Installation, JobId, NewJob, WorkerId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::sqlite::queries::{
    claim, finish, heartbeat, installation, leases, next_due, prune, rescue, schedule, tick, worker,
};
use crate::sqlite::slot::Slot;
use crate::sqlite::{listen, migrate, transact};

/// How often in a row a rescuer must find the write lock free before it declares anybody dead.
const FREE_LOOKS: usize = 3;
/// How many times it looks; then it leaves it to the next rescue.
const MAX_LOOKS: usize = 30;
/// The pause between two looks: longer than the 100 ms in which a heartbeat that waits for the lock tries again.
const BETWEEN_LOOKS: Duration = Duration::from_millis(120);
/// A lock that took no longer than this was free.
const FREE: Duration = Duration::from_millis(50);

/// A file with jobs.
pub(super) struct SqliteStorage {
    pub(super) file: Arc<str>,
    pub(super) writer: Arc<Slot>,
    pub(super) reader: Arc<Slot>,
}

#[async_trait]
impl Storage for SqliteStorage {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn provides(&self, connection: TypeId) -> bool {
        connection == TypeId::of::<SqliteConnection>()
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        self.reader.run(migrate::check).await?;
        self.reader.read(installation::installation).await
    }

    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        let worker = worker.clone();
        self.writer.write(move |conn| worker::register(conn, &worker)).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.writer.write(move |conn| worker::deregister(conn, worker)).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        // The writer itself: a connection of its own would wait for the same lock, only less fairly.
        Ok(Box::new(SqliteHeartbeat { worker, writer: self.writer.clone() }))
    }

    async fn claim(&self, wanted: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        if wanted.quarantined {
            let wanted = wanted.clone();
            let job = self.writer.write(move |conn| claim::claim_quarantined(conn, &wanted)).await?;
            return Ok(job.into_iter().collect());
        }
        // A look costs no lock: a worker that finds nothing disturbs nobody.
        if self.next_due(wanted, Duration::ZERO).await?.is_none_or(|wait| !wait.is_zero()) {
            return Ok(Vec::new());
        }
        let wanted = wanted.clone();
        self.writer.write_lazily(move |conn| claim::claim(conn, &wanted)).await
    }

    async fn next_due(&self, wanted: &Claim, _: Duration) -> StorageResult<Option<Duration>> {
        let wanted = wanted.clone();
        self.reader.read(move |conn| next_due::next_due(conn, &wanted)).await
    }

    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.to_vec();
        self.writer.write(move |conn| finish::finish(conn, &batch)).await
    }

    /// All of them: there is no limit to the length of a list in PostgreSQL, but there is one here.
    async fn leases(&self, worker: WorkerId, _among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        self.reader.read(move |conn| leases::leases(conn, worker)).await
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        transact::transact(&self.writer, transaction).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let quarantined = self.reader.read(move |conn| rescue::quarantined(conn, policy)).await?;
        let nobody = Rescued { quarantined, ..Rescued::default() };
        if !self.reader.read(rescue::is_needed).await? {
            return Ok(nobody);
        }
        // A transaction that holds the write lock for long silences the heartbeats of live workers. So nobody is declared
        // dead before the lock was free for long enough that those who waited for it came through.
        let mut free_looks = 0;
        for _ in 0..MAX_LOOKS {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let (asked, may_rescue) = (Instant::now(), free_looks == FREE_LOOKS);
            let rescued = self.writer.write(move |conn| {
                let free = asked.elapsed() <= FREE;
                if free && may_rescue { rescue::rescue(conn, policy).map(Ok) } else { Ok(Err(free)) }
            });
            match rescued.await? {
                Ok(rescued) => return Ok(Rescued { quarantined: quarantined || rescued.quarantined, ..rescued }),
                Err(true) => free_looks += 1,
                Err(false) => free_looks = 0,
            }
        }
        Ok(nobody)
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        if !self.reader.read(prune::is_needed).await? {
            return Ok(0);
        }
        self.writer.write(move |conn| prune::prune(conn, limit)).await
    }

    // Claims see everything.
    async fn rescan(&self, _: &Claim, _: RescanReason) -> StorageResult<Rescanned> {
        Ok(Rescanned::Nothing)
    }
}

#[async_trait]
impl Schedules for SqliteStorage {
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool> {
        let declared = declared.to_vec();
        self.writer.write(move |conn| schedule::declare(conn, &declared)).await?;
        // Nobody locks a row here.
        Ok(true)
    }

    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
        self.reader.read(schedule::schedules).await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        let (schedule, jobs) = (schedule.clone(), jobs.to_vec());
        self.writer.write(move |conn| tick::tick(conn, &schedule, last_tick, &jobs)).await
    }
}

#[async_trait]
impl Notifications for SqliteStorage {
    async fn set_idle(&self, _: WorkerId, _: bool) -> StorageResult<()> {
        // Every commit is noticed by every listener, idle or not; there is nothing to ask for.
        Ok(())
    }

    async fn listen(&self, _: &[String], wake: Arc<Notify>, stop: CancellationToken) {
        listen::listen(self.file.clone(), wake, stop).await;
    }
}

/// A worker's line to the file.
struct SqliteHeartbeat {
    worker: WorkerId,
    writer: Arc<Slot>,
}

#[async_trait]
impl Heartbeat for SqliteHeartbeat {
    async fn beat(&mut self) -> StorageResult<Option<Beat>> {
        let worker = self.worker;
        self.writer.write_lazily(move |conn| heartbeat::heartbeat(conn, worker)).await
    }
}
