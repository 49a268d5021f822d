//! A storage that loses replies, and tells a test what a worker asks of it.

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs::operator::Installation;
use diesel_jobs::store::{
    Admission, Chore, Claim, ClaimedJob, DeclaredRules, DeclaredSchedule, DiscardRule, Ends, Finish, Finished,
    Heartbeat, Leases, Loaded, Loading, Maintained, Overrides, PassOn, ProgressReport, RescanReason, Rescanned,
    RescuePolicy, Rescued, Storage, StorageResult, StoredSchedule, StoredSchedules, Transacted, Transaction,
    Transition, WaitEnd, Waiting, WorkerInfo,
};
use diesel_jobs::worker::{Retention, WorkerId};
use diesel_jobs::{JobId, NewJob, StorageError};
use diesel_jobs_core::history::HistoryBatch;
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
    /// The first answer about schedules comes some time after the worker has polled. It does so once.
    pub(crate) schedules_are_late: AtomicBool,
    pub(crate) polled: Notify,
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
            schedules_are_late: AtomicBool::default(),
            polled: Notify::default(),
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

    async fn finish(&self, batch: &[Finish], pass_on: PassOn<'_>) -> StorageResult<Finished> {
        if let PassOn::PermitsAndClaim(_) = pass_on {
            let finished = self.inner.finish(batch, pass_on).await?;
            self.claimed_by_finishes.fetch_add(finished.claimed.len(), Ordering::SeqCst);
            return if finished.claimed.is_empty() { Ok(finished) } else { lost(&self.claiming_finishes, finished) };
        }
        let is_refused = |Finish { lease, transition, .. }: &Finish| {
            matches!(transition, Transition::Complete(_))
                && (self.refused.is_empty() || self.refused.contains(&lease.job))
        };
        if batch.iter().any(is_refused) && lost(&self.refusals, ()).is_err() {
            self.refused_so_far.fetch_add(1, Ordering::SeqCst);
            return Err(StorageError::Refused("not this one".into()));
        }
        let moved = self.inner.finish(batch, PassOn::Nothing).await?.moved;
        lost(&self.finishes, Finished { moved, is_free: true, ..Finished::default() })
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        self.inner.check_schema().await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        self.inner.store_progress(reports).await
    }

    async fn next_due(&self, claim: &Claim, waiting: Waiting) -> StorageResult<Option<Duration>> {
        let due = self.inner.next_due(claim, waiting).await?;
        self.polled.notify_one();
        let then = if due.is_none() && matches!(waiting, Waiting::Available { .. }) {
            self.after_empty_poll.lock().unwrap().take()
        } else {
            None
        };
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

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Leases> {
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

    async fn maintain(&self, chore: Chore, limit: usize) -> StorageResult<Maintained> {
        self.inner.maintain(chore, limit).await
    }

    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        self.inner.register(worker).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.inner.deregister(worker).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        self.inner.open_heartbeat(worker).await
    }

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

    async fn record_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        self.inner.record_history(batch).await
    }

    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        self.inner.admit(sweeps).await
    }

    async fn end_waiting(&self, end: WaitEnd, retention: Retention) -> StorageResult<Ends> {
        self.inner.end_waiting(end, retention).await
    }

    async fn schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<StoredSchedules> {
        if self.schedules_are_late.swap(false, Ordering::SeqCst) {
            self.polled.notified().await;
            // A worker that does not wait for the answer ends meanwhile.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.inner.schedules(declared).await
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        self.inner.declare_discard_rules(kinds, rules).await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        self.inner.tick(schedule, last_tick, jobs).await
    }

    async fn rescue_is_due(&self) -> StorageResult<bool> {
        self.inner.rescue_is_due().await
    }

    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()> {
        self.inner.set_idle(worker, idle).await
    }

    async fn listen(&self, queues: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        self.inner.listen(queues, wake, admission, stop).await;
    }
}
