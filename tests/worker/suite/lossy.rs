//! A storage that loses replies, and tells a test what a worker asks of it.

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs::storage::{
    Admission, Cancelled, Claim, Connections, DeclaredSchedule, EndedByLimit, ExpiredJob, Finished, Heartbeat, Limits,
    Loaded, Loading, Notifications, OperationId, OperationRecord, Operations, Overrides, Registration, RescanReason,
    Rescanned, RescuePolicy, Rescued, Sampling, Schedules, Statistics, Storage, StorageResult, StoredSchedule,
    Transacted, Transaction, WorkerInfo,
};
use diesel_jobs::{Installation, JobId, NewJob, StorageError, WorkerId};
use diesel_jobs_core::history::{Fold, HistoryBatch};
use diesel_jobs_core::{ClaimedJob, DiscardRule, Finish, ProgressReport, Retention, Transition};
use support::{Conn, Db};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A storage that loses replies, this many times, after the work was done.
pub(crate) struct Lossy {
    pub(crate) inner: Arc<dyn Storage>,
    pub(crate) claims: AtomicUsize,
    pub(crate) finishes: AtomicUsize,
    /// Those of finishes that have claimed jobs.
    pub(crate) claiming_finishes: AtomicUsize,
    /// Executes the lost claims only after this time, when the worker has long searched for what they may have left.
    pub(crate) late: Option<Duration>,
    /// Holds back the reply to a claim that returned jobs until it is released. It does so once.
    pub(crate) held_back: Option<Arc<Notify>>,
    pub(crate) holds_back: Arc<AtomicBool>,
    /// A late claim is not executed yet. Meanwhile other claims return nothing, so that the job is left for it.
    pub(crate) under_way: Arc<AtomicBool>,
    /// Refuses this many completions, whatever is tried,
    pub(crate) refusals: AtomicUsize,
    /// but only those of these jobs, if there are any here.
    pub(crate) refused: Vec<JobId>,
    /// How many it has refused.
    pub(crate) refused_so_far: Arc<AtomicUsize>,
    /// Before the reply of the first poll without jobs arrives, this statement is executed, and the rescanner makes a
    /// rescan.
    pub(crate) after_empty_poll: Mutex<Option<(Conn, &'static str)>>,
    /// Notified when the transaction of an attempt has ended, or it is decided that it will not be committed.
    pub(crate) transacted: Arc<Notify>,
    /// How many rescans were requested, besides the routine ones.
    pub(crate) requested_rescans: Arc<AtomicUsize>,
    /// How many jobs finishes have claimed.
    pub(crate) claimed_by_finishes: Arc<AtomicUsize>,
    /// The database's clock steps immediately before each rescue, and back after it, as these statements do it.
    pub(crate) clock_steps: tokio::sync::Mutex<Option<(Conn, [&'static str; 2])>>,
    /// How many times it has stepped.
    pub(crate) stepped: Arc<AtomicUsize>,
}

impl Lossy {
    pub(crate) fn losing(db: &Db, claims: usize, finishes: usize) -> Self {
        Self {
            inner: db.storage(),
            claims: claims.into(),
            finishes: finishes.into(),
            claiming_finishes: 0.into(),
            late: None,
            held_back: None,
            holds_back: Arc::default(),
            under_way: Arc::default(),
            refusals: 0.into(),
            refused: Vec::new(),
            refused_so_far: Arc::default(),
            after_empty_poll: Mutex::default(),
            transacted: Arc::default(),
            requested_rescans: Arc::default(),
            claimed_by_finishes: Arc::default(),
            clock_steps: tokio::sync::Mutex::default(),
            stepped: Arc::default(),
        }
    }
}

fn lost<T>(left: &AtomicUsize, answer: T) -> StorageResult<T> {
    match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
        Ok(_) => Err(StorageError::Unavailable("the answer was lost".into())),
        Err(_) => Ok(answer),
    }
}

#[async_trait::async_trait]
impl Storage for Lossy {
    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        if let Some(late) = self.late
            && lost(&self.claims, ()).is_err()
        {
            let (inner, claim, under_way) = (self.inner.clone(), claim.clone(), self.under_way.clone());
            under_way.store(true, Ordering::SeqCst);
            tokio::spawn(async move {
                // Other claims return nothing meanwhile, so this one finds both jobs, however late it is.
                tokio::time::sleep(late).await;
                assert_eq!(inner.claim(&claim).await.unwrap().len(), 2);
                under_way.store(false, Ordering::SeqCst);
            });
            return Err(StorageError::Unavailable("the answer is late".into()));
        }
        if self.under_way.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        match self.inner.claim(claim).await? {
            nothing if nothing.is_empty() => Ok(nothing),
            jobs if let Some(let_go) = &self.held_back
                && !self.holds_back.swap(true, Ordering::SeqCst) =>
            {
                let_go.notified().await;
                Ok(jobs)
            }
            jobs => lost(&self.claims, jobs),
        }
    }

    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>> {
        let is_refused = |Finish { lease, transition, .. }: &Finish| {
            matches!(transition, Transition::Complete(_))
                && (self.refused.is_empty() || self.refused.contains(&lease.job))
        };
        if batch.iter().any(is_refused) && lost(&self.refusals, ()).is_err() {
            self.refused_so_far.fetch_add(1, Ordering::SeqCst);
            return Err(StorageError::Refused("not this one".into()));
        }
        lost(&self.finishes, self.inner.finish(batch).await?)
    }

    async fn finish_and_pass_on(&self, batch: &[Finish], next: Option<&Claim>) -> StorageResult<Finished> {
        if next.is_none() {
            return Ok(Finished { moved: self.finish(batch).await?, is_free: true, ..Finished::default() });
        }
        let finished = self.inner.finish_and_pass_on(batch, next).await?;
        self.claimed_by_finishes.fetch_add(finished.claimed.len(), Ordering::SeqCst);
        if finished.claimed.is_empty() { Ok(finished) } else { lost(&self.claiming_finishes, finished) }
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        self.inner.check_schema().await
    }

    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>> {
        self.inner.cancelled(jobs).await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        self.inner.store_progress(reports).await
    }

    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>> {
        let due = self.inner.next_due(claim, within).await?;
        let then = if due.is_none() { self.after_empty_poll.lock().unwrap().take() } else { None };
        if let Some((mut conn, sql)) = then {
            conn.execute(sql).await;
            assert_eq!(self.inner.rescan(claim, RescanReason::Requested).await?, Rescanned::Found);
        }
        Ok(due)
    }

    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        if matches!(reason, RescanReason::Requested) {
            self.requested_rescans.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.rescan(claim, reason).await
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        self.inner.overrides().await
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        self.inner.leases(worker, among).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let mut clock = self.clock_steps.lock().await;
        let Some((conn, [step, back])) = &mut *clock else { return self.inner.rescue(policy).await };
        conn.execute(step).await;
        let rescued = self.inner.rescue(policy).await;
        conn.execute(back).await;
        self.stepped.fetch_add(1, Ordering::SeqCst);
        rescued
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        self.inner.prune(limit).await
    }
}

#[async_trait::async_trait]
impl Registration for Lossy {
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        self.inner.register(worker).await
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<()> {
        self.inner.declare_discard_rules(kinds, rules).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.inner.deregister(worker).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        self.inner.open_heartbeat(worker).await
    }
}

#[async_trait::async_trait]
impl Connections for Lossy {
    fn provides(&self, connection: TypeId) -> bool {
        self.inner.provides(connection)
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        let transacted = self.inner.transact(transaction).await;
        self.transacted.notify_one();
        transacted
    }

    async fn load(&self, loading: Loading) -> Loaded {
        self.inner.load(loading).await
    }
}

#[async_trait::async_trait]
impl Statistics for Lossy {
    async fn record_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        self.inner.record_history(batch).await
    }

    async fn fold_history(&self, fold: Fold, limit: usize) -> StorageResult<usize> {
        self.inner.fold_history(fold, limit).await
    }

    async fn prune_history(&self, keep: Duration, limit: usize) -> StorageResult<usize> {
        self.inner.prune_history(keep, limit).await
    }

    async fn sample_jobs(&self) -> StorageResult<(Sampling, Duration)> {
        self.inner.sample_jobs().await
    }
}

#[async_trait::async_trait]
impl Operations for Lossy {
    async fn step_operation(&self, only: Option<OperationId>, limit: usize) -> StorageResult<Option<OperationRecord>> {
        self.inner.step_operation(only, limit).await
    }
}

#[async_trait::async_trait]
impl Limits for Lossy {
    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        self.inner.admit(sweeps).await
    }

    async fn expire(&self, keep: Duration) -> StorageResult<Vec<ExpiredJob>> {
        self.inner.expire(keep).await
    }

    async fn end_full(&self, retention: Retention) -> StorageResult<Vec<EndedByLimit>> {
        self.inner.end_full(retention).await
    }

    async fn next_held(&self, claim: &Claim) -> StorageResult<Option<Duration>> {
        self.inner.next_held(claim).await
    }
}

#[async_trait::async_trait]
impl Schedules for Lossy {
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool> {
        self.inner.declare_schedules(declared).await
    }

    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
        self.inner.schedules().await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        self.inner.tick(schedule, last_tick, jobs).await
    }
}

#[async_trait::async_trait]
impl Notifications for Lossy {
    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()> {
        self.inner.set_idle(worker, idle).await
    }

    async fn listen(&self, queues: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        self.inner.listen(queues, wake, admission, stop).await;
    }
}
