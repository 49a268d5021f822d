//! The storage interface on PostgreSQL. The comments on each operation are in the file of its statement, in `queries`.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{
    Admission, Beat, Cancelled, Claim, CrashedAttempt, DeclaredSchedule, Heartbeat, Limits, Loaded, Loading,
    Notifications, Overrides, RescanReason, Rescanned, RescuePolicy, Rescued, Schedules, Storage, StorageResult,
    StoredSchedule, Transacted, Transaction, WorkerInfo,
};
use diesel_jobs_core::{
    ClaimedJob, DiscardRule, Finish, Installation, JobId, NewJob, ProgressReport, StorageError, WorkerId,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::outage::Outage;
use super::queries::cancelled::CancelledQuery;
use super::queries::declare_discard_rules::DeclareDiscardRulesQuery;
use super::queries::enqueue::CHUNK;
use super::queries::forget_discard_rules::ForgetDiscardRulesQuery;
use super::queries::overrides::{OverrideRow, OverridesQuery, overrides};
use super::queries::progress::StoreProgressQuery;
use super::queries::prune::PruneQuery;
use super::queries::rescue::RescueQuery;
use super::queries::store_outputs::StoreOutputsQuery;
use super::queries::{admit, finish_batch, heartbeat, installation, leases, schedule, tick, worker};
use super::refused::may_be_caused_by_a_row;
use super::{
    PgStorage, SERVER_LIMIT, STATEMENT_LIMIT, load, migrate, native, notify, run, settings, transact, unavailable,
};
use crate::error::storage_error;

#[async_trait]
impl Storage for PgStorage {
    fn name(&self) -> &'static str {
        "PostgreSQL"
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

    async fn check_schema(&self) -> StorageResult<Installation> {
        run!(self, "check_server", conn => migrate::check_server(conn))??;
        run!(self, "check_rows", conn => migrate::check_rows(conn))??;
        migrate::check(&run!(self, "check_schema", conn => migrate::applied(conn))?)?;
        run!(self, "installation", conn => installation::installation(conn))
    }

    async fn register(&self, info: &WorkerInfo) -> StorageResult<()> {
        self.tell_lease(info.lease);
        run!(self, "register", conn => worker::register(conn, info))
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<()> {
        // Two transactions: each locks rows in one order, so two programs cannot deadlock.
        let forget = || ForgetDiscardRulesQuery::new(kinds, rules);
        run!(self, "forget_discard_rules", conn => RunQueryDsl::execute(forget(), conn)).map(drop)?;
        if rules.is_empty() {
            return Ok(());
        }
        let declare = || DeclareDiscardRulesQuery::new(rules);
        run!(self, "declare_discard_rules", conn => RunQueryDsl::execute(declare(), conn)).map(drop)
    }

    async fn deregister(&self, id: WorkerId) -> StorageResult<()> {
        self.forget_levels(id);
        run!(self, "deregister", conn => worker::deregister(conn, id))
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        let conn = self.own_connector.connect().await.map_err(unavailable)?;
        let (is_explicit, outage) = (self.own_connector.explicit().is_known(), self.outage.clone());
        Ok(Box::new(PgHeartbeat { conn, worker, is_explicit, outage }))
    }

    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        if claim.only_quarantined { self.claim_quarantined(claim).await } else { self.claim_unquarantined(claim).await }
    }

    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>> {
        self.find_next_due(claim, within).await
    }

    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        self.find_stragglers(claim, reason).await
    }

    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.clear_for_retries(batch).await?;
        let stores = StoreOutputsQuery::for_batch(batch);
        let stripped: Vec<Finish>;
        let batch = if stores.is_empty() {
            batch
        } else {
            for store in stores {
                run!(self, "store_outputs", conn => RunQueryDsl::execute(store, conn))?;
            }
            stripped = batch.iter().map(Finish::without_output).collect();
            &stripped
        };
        let mut moved: StorageResult<Vec<i64>> = run!(self, "finish", conn => finish_batch::finish(conn, batch));
        if moved.as_ref().is_err_and(may_be_caused_by_a_row) && self.set_running_apart().await? {
            moved = run!(self, "finish", conn => finish_batch::finish(conn, batch));
        }
        Ok(moved?.into_iter().map(JobId).collect())
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        let leases = run!(self, "leases", conn => leases::leases(conn, worker, among))?;
        Ok(leases.into_iter().map(|(id, number)| (JobId(id), number)).collect())
    }

    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>> {
        let query = || CancelledQuery { ids: jobs.iter().map(|job| job.0).collect() };
        let rows: Vec<(i64, Option<String>)> = run!(self, "cancelled", conn => query().load(conn))?;
        Ok(rows.into_iter().map(|(job, by)| Cancelled { job: JobId(job), by }).collect())
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

    async fn transact(&self, transaction: Transaction) -> Transacted {
        let transacted = transact::transact(self, transaction).await;
        self.clear_for_transact(&transacted).await;
        transacted
    }

    async fn load(&self, loading: Loading) -> Loaded {
        load::load(self, loading).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let query = || RescueQuery {
            max_crashes: policy.max_crashes.into(),
            quarantined_at: policy.quarantined_at().into(),
            keep_seconds: native::seconds(policy.retention.discarded),
            orphans: policy.orphans,
            worker: policy.rescuer.map(|rescuer| rescuer.worker.0),
            beat: policy.rescuer.map(|rescuer| rescuer.beat),
            age: policy.rescuer.map_or(0.0, |rescuer| native::seconds(rescuer.age)),
        };
        let mut rows: StorageResult<Vec<RescuedRow>> = run!(self, "rescue", conn => query().load(conn));
        if rows.as_ref().is_err_and(may_be_caused_by_a_row) && self.set_running_apart().await? {
            rows = run!(self, "rescue", conn => query().load(conn));
        }
        let rows = rows?;
        let mut rescued = Rescued::default();
        for (id, queue, kind, discarded, _, quarantined_due, left_behind, held_off) in rows {
            (rescued.quarantined_due, rescued.left_behind, rescued.held_off) = (quarantined_due, left_behind, held_off);
            if let (Some(id), Some(queue), Some(kind), Some(discarded)) = (id, queue, kind, discarded) {
                rescued.attempts.push(CrashedAttempt { queue, kind, discarded });
                if discarded { &mut rescued.discarded } else { &mut rescued.returned }.push(JobId(id));
            }
        }
        Ok(rescued)
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        let query = PruneQuery {
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            after: AtomicI64::load(&self.forgotten, Ordering::Relaxed),
        };
        let (pruned, seen): (i64, Option<i64>) = run!(self, "prune", conn => query.get_result(conn))?;
        AtomicI64::store(&self.forgotten, seen.unwrap_or(i64::MIN), Ordering::Relaxed);
        Ok(usize::try_from(pruned).unwrap_or_default())
    }
}

#[async_trait]
impl Limits for PgStorage {
    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        run!(self, "admit", conn => admit::admit(conn, sweeps))
    }

    async fn next_held(&self, claim: &Claim) -> StorageResult<Option<Duration>> {
        run!(self, "next_held", conn => admit::next_held(conn, claim))
    }
}

#[async_trait]
impl Schedules for PgStorage {
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool> {
        run!(self, "declare_schedules", conn => schedule::declare(conn, declared))
    }

    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
        run!(self, "schedules", conn => schedule::schedules(conn))
    }

    async fn tick(&self, stored: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        run!(self, "tick", conn => tick::tick(conn, stored, last_tick, jobs))
    }
}

#[async_trait]
impl Notifications for PgStorage {
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

/// The job's id, queue and kind, and whether the job was discarded; what was woken. Then three facts: whether quarantined jobs are due,
/// whether rows were left behind, whether the rescue was held off.
type RescuedRow = (Option<i64>, Option<String>, Option<String>, Option<bool>, i64, bool, bool, bool);

struct PgHeartbeat {
    conn: AsyncPgConnection,
    worker: WorkerId,
    is_explicit: bool,
    outage: Arc<Outage>,
}

#[async_trait]
impl Heartbeat for PgHeartbeat {
    async fn beat(&mut self) -> StorageResult<Option<Beat>> {
        let (conn, worker) = (&mut self.conn, self.worker);
        let beat = async {
            if !self.is_explicit {
                return heartbeat::heartbeat(conn, worker).await;
            }
            settings::begin(conn, SERVER_LIMIT).await?;
            let answer = heartbeat::heartbeat(conn, worker).await;
            settings::end(conn, answer).await
        };
        let answer = match tokio::time::timeout(STATEMENT_LIMIT, beat).await {
            Ok(answer) => answer.map_err(storage_error),
            Err(elapsed) => Err::<_, StorageError>(unavailable(elapsed)),
        };
        answer.inspect_err(|_| self.outage.begin())
    }
}
