//! The storage interface on SQLite. Each operation runs functions of `queries/` in a transaction. Some first read, in
//! another transaction, whether there is anything to do.

use std::any::TypeId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel_jobs_core::history::HistoryBatch;
use diesel_jobs_core::storage::{
    Admission, Chore, Claim, DeclaredRules, DeclaredSchedule, Ends, Finished, Heartbeat, Leases, Loaded, Loading,
    Maintained, Overrides, PassOn, RescuePolicy, Rescued, Storage, StorageResult, StoredSchedule, StoredSchedules,
    Transacted, Transaction, WaitEnd, Waiting, WorkerInfo,
};
use diesel_jobs_core::{
    ClaimedJob, DiscardRule, Finish, Installation, JobId, NewJob, ProgressReport, Retention, WorkerId,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::sqlite::heartbeat_connection::SqliteHeartbeat;
use crate::sqlite::queries::{
    admission_failure, admit, claim, expire, failures, finish, full_limits, history, installation, leases, next_due,
    overrides, progress, prune, rate, rescue, schedule, sweep, tick, waiting_queues, worker,
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
        let available = Waiting::Available { within: Duration::ZERO };
        if self.next_due(wanted, available).await?.is_none_or(|wait| !wait.is_zero()) {
            return Ok(Vec::new());
        }
        let wanted = wanted.clone();
        self.writer.write_lazily(move |conn| claim::claim(conn, &wanted)).await
    }

    async fn next_due(&self, wanted: &Claim, waiting: Waiting) -> StorageResult<Option<Duration>> {
        let wanted = wanted.clone();
        self.reader.read(move |conn| next_due::next_of(conn, &wanted, waiting)).await
    }

    /// Passes no permit on: the next pass of admission gives it to a held job.
    async fn finish(&self, batch: &[Finish], _: PassOn<'_>) -> StorageResult<Finished> {
        if batch.is_empty() {
            return Ok(Finished::default());
        }
        let batch = batch.to_vec();
        let moved = self.writer.write(move |conn| finish::finish(conn, &batch)).await?;
        Ok(Finished { moved, is_free: true, ..Finished::default() })
    }

    /// Returns all leases, those of other jobs than `among` too, because SQLite limits the length of a list. PostgreSQL
    /// has no such limit.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Leases> {
        let among = among.unwrap_or_default().to_vec();
        let both = move |conn: &mut SqliteConnection| {
            let valid = leases::leases(conn, worker)?;
            let held: HashSet<&JobId> = valid.iter().map(|(job, _)| job).collect();
            let lost: Vec<JobId> = among.into_iter().filter(|job| !held.contains(job)).collect();
            let cancelled = if lost.is_empty() { Vec::new() } else { failures::cancelled(conn, &lost)? };
            Ok(Leases { valid, cancelled })
        };
        self.reader.read(both).await
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        self.reader.read(overrides::overrides).await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        let reports = reports.to_vec();
        self.writer.write(move |conn| progress::store(conn, &reports)).await
    }

    async fn rescue_is_due(&self) -> StorageResult<bool> {
        self.reader.read(rescue::is_needed).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let quarantined_due = self.reader.read(move |conn| rescue::quarantined_due(conn, policy)).await?;
        let none_rescued = Rescued { quarantined_due, ..Rescued::default() };
        if !self.rescue_is_due().await? {
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

    async fn maintain(&self, chore: Chore, limit: usize) -> StorageResult<Maintained> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let none = Maintained::default();
        // Reading takes no lock, so a chore without work blocks no other session.
        match chore {
            Chore::Prune => {
                if !self.reader.read(prune::is_needed).await? {
                    return Ok(none);
                }
                Ok(Maintained::batch(self.writer.write(move |conn| prune::prune(conn, limit)).await?, limit))
            }
            Chore::FoldHistory(fold) => {
                if !self.reader.read(move |conn| history::can_fold(conn, fold)).await? {
                    return Ok(none);
                }
                let rows = self.writer.write(move |conn| history::fold_history(conn, fold, most)).await?;
                Ok(Maintained { rows, more: rows > 0, ..none })
            }
            Chore::PruneHistory(keep) => {
                if !self.reader.read(move |conn| history::can_prune(conn, keep)).await? {
                    return Ok(none);
                }
                Ok(Maintained::batch(self.writer.write(move |conn| history::prune(conn, keep, most)).await?, limit))
            }
            Chore::SampleJobs => self.sample_jobs().await,
            Chore::StepOperation => {
                let stepped = operator::step(&self.reader, &self.writer, None, limit).await?;
                Ok(Maintained { rows: stepped.iter().count(), more: stepped.is_some(), ..none })
            }
        }
    }

    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        if let Some(kind) = file_system::foreign(&self.file) {
            let file = &*self.file;
            tracing::warn!(target: "diesel_jobs", { file, kind }, "the SQLite file is on a file system that is not known to be on this \
                machine; elsewhere locks may fail and destroy it: move it to a disk of this machine, or use PostgreSQL");
        }
        let info = worker.clone();
        self.writer.write(move |conn| worker::register(conn, &info)).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.writer.write(move |conn| worker::deregister(conn, worker)).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        // Writes through the connection of the writer. A separate one would wait for the same lock, but less fairly.
        let reader = Arc::new(SharedConnection::new(self.file.clone()));
        Ok(Box::new(SqliteHeartbeat { worker, writer: self.writer.clone(), reader }))
    }

    fn provides(&self, connection: TypeId) -> bool {
        connection == TypeId::of::<SqliteConnection>()
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        transact::transact(&self.writer, transaction).await
    }

    async fn load(&self, loading: Loading) -> Loaded {
        load::load(&self.reader, loading).await
    }

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

    async fn end_waiting(&self, end: WaitEnd, retention: Retention) -> StorageResult<Ends> {
        let ended = move |conn: &mut SqliteConnection| match end {
            WaitEnd::Expired => expire::expire(conn, retention.cancelled),
            WaitEnd::LimitFull => full_limits::end_full(conn, retention),
        };
        self.writer.write(ended).await
    }

    async fn record_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        let batch = batch.clone();
        self.writer.write_lazily(move |conn| history::record(conn, &batch)).await
    }

    /// SQLite has no row locks, so no schedule is passed over.
    async fn schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<StoredSchedules> {
        let refused = if declared.is_empty() { Vec::new() } else { self.declare_schedules(declared.to_vec()).await? };
        let (all, now) = self.reader.read(schedule::schedules).await?;
        Ok(StoredSchedules { all, now, is_locked: false, refused })
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        self.declare_rules(kinds, rules).await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        let (schedule, jobs) = (schedule.clone(), jobs.to_vec());
        self.writer.write(move |conn| tick::tick(conn, &schedule, last_tick, &jobs)).await
    }

    async fn waiting_queues(&self, _: Waiting) -> StorageResult<Vec<String>> {
        self.reader.read(waiting_queues::waiting_queues).await
    }

    // Every listener notices every commit, whether its worker is idle or not. So there is no idle flag to store.
    async fn listen(&self, _: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        listen::listen(self.file.clone(), listen::Wakes { jobs: wake, admission }, stop).await;
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
