//! The database executes a statement and the reply is lost on the way. What was done must not wait for ever.

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use diesel_jobs::storage::{
    Admission, Cancelled, Claim, Connections, DeclaredSchedule, EndedByLimit, ExpiredJob, Finished, Heartbeat, Limits,
    Loaded, Loading, Notifications, OperationId, OperationRecord, Operations, Overrides, Registration, RescanReason,
    Rescanned, RescuePolicy, Rescued, Sampling, Schedules, Statistics, Storage, StorageResult, StoredSchedule,
    Transacted, Transaction, WorkerInfo,
};
use diesel_jobs::{Installation, JobContext, JobId, JobState, NewJob, State, StorageError, Worker, WorkerId, job};
use diesel_jobs_core::history::{Fold, HistoryBatch};
use diesel_jobs_core::{ClaimedJob, DiscardRule, Finish, ProgressReport, Retention, Transition};
use support::{Conn, Db, Probe, Running, registry};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A storage that loses replies, this many times, after the work was done.
struct Lossy {
    inner: Arc<dyn Storage>,
    claims: AtomicUsize,
    finishes: AtomicUsize,
    /// Those of finishes that have claimed jobs.
    claiming_finishes: AtomicUsize,
    /// Executes the lost claims only after this time, when the worker has long searched for what they may have left.
    late: Option<Duration>,
    /// Holds back the reply to a claim that returned jobs until it is released. It does so once.
    held_back: Option<Arc<Notify>>,
    holds_back: Arc<AtomicBool>,
    /// A late claim is not executed yet. Meanwhile other claims return nothing, so that the job is left for it.
    under_way: Arc<AtomicBool>,
    /// Refuses this many completions, whatever is tried,
    refusals: AtomicUsize,
    /// but only those of these jobs, if there are any here.
    refused: Vec<JobId>,
    /// How many it has refused.
    refused_so_far: Arc<AtomicUsize>,
    /// Before the reply of the first poll without jobs arrives, this statement is executed, and the rescanner makes a rescan.
    after_empty_poll: Mutex<Option<(Conn, &'static str)>>,
}

impl Lossy {
    fn losing(db: &Db, claims: usize, finishes: usize) -> Self {
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
        let is_refused = |Finish { lease, transition }: &Finish| {
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
        self.inner.rescan(claim, reason).await
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        self.inner.overrides().await
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        self.inner.leases(worker, among).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        self.inner.rescue(policy).await
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
        self.inner.transact(transaction).await
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

#[job]
async fn once(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

/// Runs five jobs on a storage that loses these replies. Each must run once, without a failure.
async fn five_jobs_run_once(db: Db, claims: usize, finishes: usize, late: Option<Duration>) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..5).map(|_| Once {})).await;
    let lossy = Lossy { late, ..Lossy::losing(&db, claims, finishes) };
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe).concurrency(2);
    let worker = Running::start(worker.poll(Duration::from_millis(50)).lease(Duration::from_secs(3)));
    for id in ids {
        let (job, failures) = {
            db.await_state(id, JobState::Completed).await;
            db.show(id).await
        };
        assert_eq!((job.attempt, job.crashes, failures.len()), (1, 0, 0));
    }
    let stats = worker.stop().await;
    assert_eq!(stats.leases_lost, 0);
    assert_eq!(events.rest().len(), 5, "each ran once");
}

async fn a_claim_whose_answer_was_lost_runs_all_the_same(db: Db) {
    five_jobs_run_once(db, 2, 0, None).await;
}

async fn a_claim_carried_out_long_after_it_was_given_up_keeps_no_job(db: Db) {
    five_jobs_run_once(db, 1, 0, Some(Duration::from_secs(2))).await;
}

/// A handler that ran under a dead worker id could not be asked to stop.
async fn a_claim_under_an_id_that_was_declared_dead_runs_no_job(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Once {}).await;
    let let_go = Arc::new(Notify::new());
    let lossy = Lossy { held_back: Some(let_go.clone()), ..Lossy::losing(&db, 0, 0) };
    let holds_back = lossy.holds_back.clone();
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe);
    let worker = Running::start(worker.poll(Duration::from_millis(50)).lease(Duration::from_secs(1)));
    support::until("the claim", async || holds_back.load(Ordering::SeqCst).then_some(())).await;
    let first = db.record(id).await;
    // As a rescue does that did not see the claim.
    db.execute("delete from jobs.worker").await;
    db.await_number(1, "select count(*) as number from jobs.worker").await;
    let_go.notify_one();
    let job = db.await_state(id, JobState::Completed).await;
    assert_ne!(job.worker, first.worker, "the dead id's attempt has not run");
    assert_eq!((worker.stop().await.leases_lost, events.rest().len()), (0, 1));
}

async fn a_finish_whose_answer_was_lost_is_not_a_lost_lease(db: Db) {
    five_jobs_run_once(db, 0, 2, None).await;
}

#[job(concurrency("bank", limit = 2))]
async fn once_in_turn(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

/// The jobs that the statement has claimed are unknown to the worker.
#[test]
fn jobs_that_a_finish_has_claimed_run_although_its_answer_was_lost() {
    support::run(Db::postgres(), async |db| {
        let (probe, mut events) = Probe::new();
        let ids = db.conn().await.enqueue_all((0..40).map(|_| OnceInTurn {})).await;
        let lossy = Lossy { claiming_finishes: 3.into(), ..Lossy::losing(&db, 0, 0) };
        let lossy = Arc::new(lossy);
        let worker = Worker::builder(lossy.clone()).registry(registry![OnceInTurn]).state(probe).concurrency(2);
        let worker = Running::start(worker.poll(Duration::from_millis(50)).lease(Duration::from_secs(30)));
        for id in ids {
            let job = db.await_state(id, JobState::Completed).await;
            assert_eq!((job.attempt, job.crashes), (1, 0));
        }
        assert_eq!(lossy.claiming_finishes.load(Ordering::SeqCst), 0, "three answers were lost");
        assert_eq!((worker.stop().await.leases_lost, events.rest().len()), (0, 40));
    });
}

/// A job that was enqueued an hour ago becomes visible, below the scan floor. The rescanner finds it before the rescan of the worker that wants
/// to end.
#[test]
fn a_worker_that_runs_until_nothing_is_left_runs_what_its_rescanner_has_found() {
    support::run(Db::postgres(), async |db| {
        const PLANT: &str = "insert into jobs.ready (kind, queue, args, run_at) values ('once', 'default', '{}', now() - interval '1 hour')";
        let (probe, mut events) = Probe::new();
        let lossy = Lossy { after_empty_poll: Mutex::new(Some((db.conn().await, PLANT))), ..Lossy::losing(&db, 0, 0) };
        let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe).build().unwrap();
        let stats = support::within(support::LIMIT, "nothing to be left", worker.run_until_empty()).await.unwrap();
        assert_eq!((stats.completed, events.rest().len()), (1, 1));
    });
}

async fn outcomes_that_the_database_refuses_for_good_discard_their_jobs_and_hold_nobody_up(db: Db) {
    let (probe, mut events) = Probe::new();
    // Many more than are tried in a row. One job among them, in the same batch, can be written.
    let mut ids = db.conn().await.enqueue_all((0..13).map(|_| Once {})).await;
    let well = ids.remove(6);
    let lossy = Lossy { refusals: usize::MAX.into(), refused: ids.clone(), ..Lossy::losing(&db, 0, 0) };
    let refused = lossy.refused_so_far.clone();
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe);
    let worker = Running::start(worker.poll(Duration::from_millis(50)).lease(Duration::from_secs(1)));
    let (mut ran, mut slowest, begun) = (1 + ids.len(), Duration::ZERO, Instant::now());
    db.await_state(well, JobState::Completed).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "it waited {:?} for its end", begun.elapsed());
    loop {
        // Other jobs can be written, which shows that the refusals are caused by the jobs themselves.
        let asked = Instant::now();
        let others = db.conn().await.enqueue_all([Once {}]).await;
        db.await_state(others[0], JobState::Completed).await;
        slowest = slowest.max(asked.elapsed());
        ran += 1;
        let mut discarded = 0;
        for id in &ids {
            match db.show(*id).await {
                (job, failures) if job.state == JobState::Discarded => {
                    let said = &failures[0].message;
                    assert!(said.contains("could not be stored: the database refused: not this one"), "{said}");
                    discarded += 1;
                }
                (job, _) => assert_eq!(job.state, JobState::Running, "it is tried again"),
            }
        }
        if discarded == ids.len() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "only {discarded} were given up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(3), "four leases are not over");
    assert!(slowest < Duration::from_secs(2), "another job waited {slowest:?} for its end");
    let (refused, seconds) = (refused.load(Ordering::SeqCst), begun.elapsed().as_secs_f64());
    assert!(f64::from(u32::try_from(refused).unwrap()) < 10.0 * seconds, "{refused} refused requests in {seconds} s");
    worker.stop().await;
    assert_eq!(events.rest().len(), ran, "each ran once");
}

async fn what_the_database_refuses_for_a_while_is_written_later(db: Db) {
    refused_for_a_while(db, Duration::from_secs(3)).await;
}

/// The time for which a finish is repeated is measured in leases, and a builder may set any lease. PostgreSQL refuses
/// such a worker.
#[test]
fn what_is_refused_for_a_while_under_an_endless_lease_is_written_later() {
    support::run(Db::sqlite(), |db| refused_for_a_while(db, Duration::MAX));
}

async fn refused_for_a_while(db: Db, lease: Duration) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..20).map(|_| Once {})).await;
    let lossy = Lossy { refusals: 15.into(), ..Lossy::losing(&db, 0, 0) };
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe).concurrency(2);
    let worker = Running::start(worker.poll(Duration::from_millis(50)).lease(lease));
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    assert_eq!(worker.stop().await.leases_lost, 0);
    assert_eq!(events.rest().len(), 20, "each ran once");
}

support::on_each_database! {
    outcomes_that_the_database_refuses_for_good_discard_their_jobs_and_hold_nobody_up,
    what_the_database_refuses_for_a_while_is_written_later,
    a_claim_whose_answer_was_lost_runs_all_the_same,
    a_claim_carried_out_long_after_it_was_given_up_keeps_no_job,
    a_finish_whose_answer_was_lost_is_not_a_lost_lease,
    a_claim_under_an_id_that_was_declared_dead_runs_no_job,
}
