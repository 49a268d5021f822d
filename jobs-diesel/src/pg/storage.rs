//! The storage interface on PostgreSQL. The comments on each operation are in the file of its statement, in `queries`.

use std::any::TypeId;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::history::HistoryBatch;
use diesel_jobs_core::storage::{
    Admission, Cancelled, Chore, Claim, DeclaredRules, DeclaredSchedule, Ends, Finished, Heartbeat, Leases, Loaded,
    Loading, Maintained, Overrides, PassOn, Polled, RescanReason, Rescanned, RescuePolicy, Rescued, Storage,
    StorageResult, StoredSchedule, StoredSchedules, Transacted, Transaction, WaitEnd, Waiting, WorkerInfo,
};
use diesel_jobs_core::{
    ClaimedJob, DiscardRule, Finish, Installation, JobId, NewJob, ProgressReport, Retention, WorkerId,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::heartbeat_connection::PgHeartbeat;
use super::queries::cancelled::CancelledQuery;
use super::queries::enqueue::CHUNK;
use super::queries::expire::{self, StartByQuery};
use super::queries::overrides::{OverrideRow, OverridesQuery, overrides};
use super::queries::progress::StoreProgressQuery;
use super::queries::prune::PruneQuery;
use super::queries::waiting_queues::WaitingQueuesQuery;
use super::queries::{admit, fold_history, leases, operation, schedule, tick, worker};
use super::{PgStorage, load, migrate, notify, run, transact, unavailable};

#[async_trait]
impl Storage for PgStorage {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        run!(self, "check_server", conn => migrate::check_server(conn))??;
        run!(self, "check_rows", conn => migrate::check_rows(conn))??;
        migrate::check(&run!(self, "check_schema", conn => migrate::applied(conn))?)?;
        self.installation().await
    }

    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        if claim.only_quarantined {
            return self.claim_quarantined(claim).await;
        }
        let mut jobs = self.claim_unquarantined(claim).await?;
        if expire::any_expires(&jobs) {
            // After an error the reconciler releases the jobs.
            let query = || StartByQuery::new(&jobs);
            let times: Vec<(i64, DateTime<Utc>)> = run!(self, "start_by", conn => query().load(conn))?;
            expire::add_start_by(&mut jobs, &times);
        }
        Ok(jobs)
    }

    async fn next_due(&self, claim: &Claim, waiting: Waiting) -> StorageResult<Option<Duration>> {
        match waiting {
            Waiting::Available { within } => self.find_next_due(claim, within).await,
            Waiting::Held => run!(self, "next_held", conn => admit::next_held(conn, claim)),
            Waiting::Token => run!(self, "next_token", conn => admit::next_token(conn, claim)),
        }
    }

    async fn poll(&self, claim: &Claim, within: Duration) -> StorageResult<Polled> {
        self.find_next_due_and_upkeep(claim, within).await
    }

    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        self.find_stragglers(claim, reason).await
    }

    async fn finish(&self, batch: &[Finish], pass_on: PassOn<'_>) -> StorageResult<Finished> {
        self.finish_all(batch, pass_on).await
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Leases> {
        let leases = run!(self, "leases", conn => leases::leases(conn, worker, among))?;
        let valid: Vec<(JobId, i32)> = leases.into_iter().map(|(id, number)| (JobId(id), number)).collect();
        let cancelled = match without(among.unwrap_or_default(), &valid) {
            lost if lost.is_empty() => Vec::new(),
            lost => {
                let query = || CancelledQuery { ids: lost.clone() };
                let rows: Vec<(i64, Option<String>)> = run!(self, "cancelled", conn => query().load(conn))?;
                rows.into_iter().map(|(job, by)| Cancelled { job: JobId(job), by }).collect()
            }
        };
        Ok(Leases { valid, cancelled })
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        let rows: Vec<OverrideRow> = run!(self, "overrides", conn => OverridesQuery.load(conn))?;
        Ok(overrides(rows))
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        for reports in reports.chunks(CHUNK) {
            let store = || StoreProgressQuery::new(reports);
            run!(self, "store_progress", conn => RunQueryDsl::execute(store(), conn))?;
        }
        Ok(())
    }

    async fn rescue_is_due(&self) -> StorageResult<bool> {
        run!(self, "rescue_is_due", conn => worker::rescue_is_due(conn))
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        self.rescue_lost(policy).await
    }

    async fn register(&self, info: &WorkerInfo) -> StorageResult<()> {
        self.tell_lease(info.lease);
        run!(self, "register", conn => worker::register(conn, info))?;
        // A worker starts without this answer, too.
        let _ = self.warn_of_sequences().await;
        Ok(())
    }

    async fn deregister(&self, id: WorkerId) -> StorageResult<()> {
        self.forget_levels(id);
        run!(self, "deregister", conn => worker::deregister(conn, id))
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        Ok(Box::new(PgHeartbeat::open(self.own_connector.clone(), worker, self.outage.clone()).await?))
    }

    fn provides(&self, connection: TypeId) -> bool {
        #[cfg(feature = "postgres-sync")]
        if connection == TypeId::of::<diesel::PgConnection>() {
            return true;
        }
        connection == TypeId::of::<AsyncPgConnection>()
    }

    fn connections(&self) -> Option<usize> {
        let open = self.own.status().size + self.handlers.status().size;
        #[cfg(feature = "postgres-sync")]
        let open = open + usize::try_from(self.blocking.state().connections).unwrap_or_default();
        Some(open)
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        let transacted = transact::transact(self, transaction).await;
        self.clear_for_transact(&transacted).await;
        self.sweep();
        transacted
    }

    async fn load(&self, loading: Loading) -> Loaded {
        let loaded = load::load(self, loading).await;
        self.sweep();
        loaded
    }

    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        // Whatever the reason was: at most one pass is slower than usual.
        let careful = AtomicBool::load(&self.admission_failed, Ordering::Relaxed);
        let found = run!(self, "admit", conn => admit::admit(conn, sweeps, careful));
        self.admission_failed.store(found.is_err(), Ordering::Relaxed);
        found
    }

    async fn end_waiting(&self, end: WaitEnd, retention: Retention) -> StorageResult<Ends> {
        match end {
            WaitEnd::Expired => self.end_expired(retention).await,
            WaitEnd::LimitFull => self.end_full(retention).await,
        }
    }

    async fn schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<StoredSchedules> {
        let (is_locked, refused) = match declared {
            [] => (false, Vec::new()),
            declared => self.declare_schedules(declared).await?,
        };
        let (all, now) = run!(self, "schedules", conn => schedule::schedules(conn))?;
        Ok(StoredSchedules { all, now, is_locked, refused })
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        self.declare_rules(kinds, rules).await
    }

    async fn tick(&self, stored: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        run!(self, "tick", conn => tick::tick(conn, &self.patience, stored, last_tick, jobs))
    }

    async fn record_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        self.store_history(batch).await
    }

    async fn maintain(&self, chore: Chore, limit: usize) -> StorageResult<Maintained> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        match chore {
            Chore::Prune => Ok(Maintained::batch(self.prune(most).await?, limit)),
            Chore::FoldHistory(fold) => {
                let rows = run!(self, "fold_history", conn => fold_history::fold_history(conn, fold, most))?;
                Ok(Maintained { rows, more: rows > 0, ..Maintained::default() })
            }
            Chore::PruneHistory(keep) => {
                let rows = run!(self, "prune_history", conn => fold_history::prune_history(conn, keep, most))?;
                Ok(Maintained::batch(rows, limit))
            }
            Chore::SampleJobs => self.sample_jobs().await,
            Chore::StepOperation => {
                if !run!(self, "step_operation", conn => operation::is_any_open(conn))? {
                    return Ok(Maintained::default());
                }
                let stepped = self.step(None, limit).await?;
                Ok(Maintained { rows: stepped.iter().count(), more: stepped.is_some(), ..Maintained::default() })
            }
        }
    }

    async fn waiting_queues(&self, waiting: Waiting) -> StorageResult<Vec<String>> {
        match waiting {
            Waiting::Available { .. } => run!(self, "waiting_queues", conn => WaitingQueuesQuery.load(conn)),
            Waiting::Held | Waiting::Token => run!(self, "waiting_queues", conn => admit::held_queues(conn)),
        }
    }

    async fn set_idle(&self, id: WorkerId, idle: bool) -> StorageResult<()> {
        if run!(self, "set_idle", conn => worker::set_idle(conn, id, idle))? {
            return Ok(());
        }
        let problem = "another session has locked the row of this worker in jobs.worker";
        Err(unavailable(std::io::Error::new(std::io::ErrorKind::WouldBlock, problem)))
    }

    async fn listen(&self, queues: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        notify::listen(self, queues, notify::Wakes { jobs: &wake, admission: &admission }, &stop).await;
    }
}

impl PgStorage {
    /// Deletes ended jobs whose retention is over.
    async fn prune(&self, limit: i64) -> StorageResult<usize> {
        let query = PruneQuery { limit, after: AtomicI64::load(&self.forgotten, Ordering::Relaxed) };
        let (pruned, seen): (i64, Option<i64>) = run!(self, "prune", conn => query.get_result(conn))?;
        AtomicI64::store(&self.forgotten, seen.unwrap_or(i64::MIN), Ordering::Relaxed);
        Ok(usize::try_from(pruned).unwrap_or_default())
    }
}

/// The jobs of which the worker has no lease.
fn without(jobs: &[JobId], valid: &[(JobId, i32)]) -> Vec<i64> {
    let valid: HashSet<&JobId> = valid.iter().map(|(job, _)| job).collect();
    jobs.iter().filter(|job| !valid.contains(job)).map(|job| job.0).collect()
}
