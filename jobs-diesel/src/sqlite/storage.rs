//! The storage interface on SQLite. Each operation runs functions of `queries/` in a transaction. Some first read, in
//! another transaction, whether there is anything to do.

use std::any::TypeId;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel_jobs_core::storage::{
    Admission, Beat, Cancelled, Claim, Connections, DeclaredSchedule, EndedByLimit, ExpiredJob, Heartbeat, Limits,
    Loaded, Loading, Notifications, OperationId, OperationRecord, Operations, Overrides, Registration, RescanReason,
    Rescanned, RescuePolicy, Rescued, Schedules, Storage, StorageResult, StoredSchedule, Transacted, Transaction,
    WorkerInfo,
};
use diesel_jobs_core::{
    ClaimedJob, DiscardRule, Finish, Installation, JobId, NewJob, ProgressReport, Retention, WorkerId,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::sqlite::queries::{
    admission_failure, admit, claim, expire, failures, finish, full_limits, heartbeat, installation, leases, limits,
    next_due, on_discarded, overrides, progress, prune, rate, rescue, schedule, sweep, tick, worker,
};
use crate::sqlite::shared_connection::SharedConnection;
use crate::sqlite::{file_system, listen, load, migrate, operator, transact};
use crate::stopwatch::Stopwatch;

/// How many times in a row a rescuer must find the write lock free before it declares a worker dead.
const FREE_CHECKS: usize = 3;
/// How many times one rescue tries the write lock. After that it leaves the jobs to the next rescue.
const MAX_CHECKS: usize = 30;
/// The pause between two tries. It is longer than 100 ms, the interval at which a waiting heartbeat tries the lock
/// again.
const BETWEEN_CHECKS: Duration = Duration::from_millis(120);
/// If it took no longer than this to get the lock, the lock was free.
const FREE: Duration = Duration::from_millis(50);

/// A file with jobs.
pub(super) struct SqliteStorage {
    pub(super) file: Arc<str>,
    pub(super) writer: Arc<SharedConnection>,
    pub(super) reader: Arc<SharedConnection>,
    /// The key at which the next sweep of admission begins.
    pub(super) swept_to: Mutex<sweep::SweptTo>,
    pub(super) stopwatch: Stopwatch,
}

#[async_trait]
impl Storage for SqliteStorage {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        self.reader.run(migrate::check).await?;
        self.reader.read(installation::installation).await
    }

    async fn claim(&self, wanted: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        if wanted.only_quarantined {
            let wanted = wanted.clone();
            let job = self.writer.write(move |conn| claim::claim_quarantined(conn, &wanted)).await?;
            return Ok(job.into_iter().collect());
        }
        // Reading takes no lock, so a worker that finds no job blocks no other session.
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

    /// Returns all leases and ignores `_among`, because SQLite limits the length of a list. PostgreSQL has no such
    /// limit.
    async fn leases(&self, worker: WorkerId, _among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        self.reader.read(move |conn| leases::leases(conn, worker)).await
    }

    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>> {
        let jobs = jobs.to_vec();
        self.reader.read(move |conn| failures::cancelled(conn, &jobs)).await
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        self.reader.read(overrides::overrides).await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        let reports = reports.to_vec();
        self.writer.write(move |conn| progress::store(conn, &reports)).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let quarantined_due = self.reader.read(move |conn| rescue::quarantined_due(conn, policy)).await?;
        let none_rescued = Rescued { quarantined_due, ..Rescued::default() };
        if !self.reader.read(rescue::is_needed).await? {
            return Ok(none_rescued);
        }
        // While a transaction holds the write lock, no live worker can store its heartbeat. So no worker is declared
        // dead before the lock was free for long enough that all waiting heartbeats were stored.
        let mut free_checks = 0;
        for _ in 0..MAX_CHECKS {
            tokio::time::sleep(BETWEEN_CHECKS).await;
            let (asked, may_rescue, stopwatch) = (Instant::now(), free_checks == FREE_CHECKS, self.stopwatch);
            let rescued = self.writer.write(move |conn| {
                let free = stopwatch.since(asked) <= FREE;
                if free && may_rescue { rescue::rescue(conn, policy).map(Ok) } else { Ok(Err(free)) }
            });
            match rescued.await? {
                Ok(rescued) => {
                    return Ok(Rescued { quarantined_due: quarantined_due || rescued.quarantined_due, ..rescued });
                }
                Err(true) => free_checks += 1,
                Err(false) => free_checks = 0,
            }
        }
        Ok(none_rescued)
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        if !self.reader.read(prune::is_needed).await? {
            return Ok(0);
        }
        self.writer.write(move |conn| prune::prune(conn, limit)).await
    }

    // Claims see all jobs, so there are no stragglers.
    async fn rescan(&self, _: &Claim, _: RescanReason) -> StorageResult<Rescanned> {
        Ok(Rescanned::Nothing)
    }
}

#[async_trait]
impl Registration for SqliteStorage {
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        if let Some(kind) = file_system::foreign(&self.file) {
            let file = &*self.file;
            tracing::warn!(target: "diesel_jobs", { file, kind }, "the SQLite file is on a file system that is not known to be on this \
                machine; elsewhere locks may fail and destroy it: move it to a disk of this machine, or use PostgreSQL");
        }
        let worker = worker.clone();
        self.writer.write(move |conn| worker::register(conn, &worker)).await
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<()> {
        let (known, declared) = (kinds.to_vec(), rules.to_vec());
        if !self.reader.read(move |conn| on_discarded::differ(conn, &known, &declared)).await? {
            return Ok(());
        }
        let (kinds, rules) = (kinds.to_vec(), rules.to_vec());
        self.writer.write(move |conn| on_discarded::declare(conn, &kinds, &rules)).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.writer.write(move |conn| worker::deregister(conn, worker)).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        // Uses the connection of the writer. A separate connection would wait for the same lock, but less fairly.
        Ok(Box::new(SqliteHeartbeat { worker, writer: self.writer.clone() }))
    }
}

#[async_trait]
impl Connections for SqliteStorage {
    fn provides(&self, connection: TypeId) -> bool {
        connection == TypeId::of::<SqliteConnection>()
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        transact::transact(&self.writer, transaction).await
    }

    async fn load(&self, loading: Loading) -> Loaded {
        load::load(&self.reader, loading).await
    }
}

#[async_trait]
impl Operations for SqliteStorage {
    async fn step_operation(&self, only: Option<OperationId>, limit: usize) -> StorageResult<Option<OperationRecord>> {
        operator::step(&self.reader, &self.writer, only, limit).await
    }
}

impl SqliteStorage {
    /// The next keys that have no nudge, in turns.
    async fn sweep(&self) -> StorageResult<sweep::Sweep> {
        // No foreign code runs under this lock, so there is no panic while it is held.
        let place = || self.swept_to.lock().unwrap_or_else(PoisonError::into_inner);
        let last = place().clone();
        let (found, last) = self.reader.read(move |conn| sweep::sweep(conn, last)).await?;
        *place() = last;
        Ok(found)
    }
}

#[async_trait]
impl Limits for SqliteStorage {
    /// While nothing is nudged, this takes no write lock. While another transaction holds it, admission waits.
    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        let (holds, nudges) = self.reader.read(admit::state).await?;
        if !sweeps && !holds && !nudges {
            return Ok(Admission { holds: Some(false), ..Admission::default() });
        }
        let found = if sweeps { self.sweep().await? } else { sweep::Sweep::default() };
        let admission = match found.is_empty() && !nudges {
            true => Admission::default(),
            false => self.writer.write(move |conn| admit::admit(conn, found)).await?,
        };
        // While the file is frozen, nothing starts when a token comes.
        let next_token = self
            .reader
            .read(|conn| if installation::is_frozen(conn)? { Ok(None) } else { rate::next_token(conn) })
            .await?;
        let failures = if sweeps { Some(self.reader.read(admission_failure::count).await?) } else { None };
        let expired = sweeps && self.reader.read(expire::is_needed).await?;
        let may_be_full = self.reader.read(full_limits::is_needed).await?;
        Ok(Admission { holds: Some(holds), next_token, failures, expired, may_be_full, ..admission })
    }

    async fn expire(&self, keep: Duration) -> StorageResult<Vec<ExpiredJob>> {
        self.writer.write(move |conn| expire::expire(conn, keep)).await
    }

    async fn end_full(&self, retention: Retention) -> StorageResult<Vec<EndedByLimit>> {
        self.writer.write(move |conn| full_limits::end_full(conn, retention)).await
    }

    async fn next_held(&self, claim: &Claim) -> StorageResult<Option<Duration>> {
        let claim = claim.clone();
        self.reader.read(move |conn| limits::next_held(conn, &claim)).await
    }
}

#[async_trait]
impl Schedules for SqliteStorage {
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool> {
        let declared = declared.to_vec();
        self.writer.write(move |conn| schedule::declare(conn, &declared)).await?;
        // SQLite has no row locks, so no schedule was passed over.
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
        // Every listener notices every commit, whether its worker is idle or not. So there is nothing to store.
        Ok(())
    }

    async fn listen(&self, _: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        listen::listen(self.file.clone(), listen::Wakes { jobs: wake, admission }, stop).await;
    }
}

/// Writes the heartbeats of one worker.
struct SqliteHeartbeat {
    worker: WorkerId,
    writer: Arc<SharedConnection>,
}

#[async_trait]
impl Heartbeat for SqliteHeartbeat {
    async fn beat(&mut self, drains: bool) -> StorageResult<Option<Beat>> {
        let worker = self.worker;
        self.writer.write_lazily(move |conn| heartbeat::heartbeat(conn, worker, drains)).await
    }
}
