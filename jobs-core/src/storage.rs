//! The port: what the worker needs of a database, a short list of verbs. Each runs in a span that tells its name and its time.

pub(crate) mod instrumented;
mod operator;

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::{JobError, StorageError};
use crate::handler::AnyConnection;
use crate::installation::Installation;
use crate::job::JobId;
use crate::lease::{ClaimedJob, Lease, WorkerId};
use crate::new_job::NewJob;
use crate::outcome::{Finish, Retention, Transition};
use crate::schedule::CatchUp;

pub use operator::{JobFilter, Operated, Operator};

/// The answer of a storage.
pub type StorageResult<T> = Result<T, StorageError>;

/// Who works: registered at start-up, kept alive by heartbeats.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// This start of this process.
    pub id: WorkerId,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// How long after its last heartbeat its jobs may be given to others.
    pub lease: Duration,
}

/// How many jobs of a queue a worker wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The queue.
    pub queue: Arc<str>,
    /// As many as it has free slots: these start at once.
    pub slots: usize,
    /// As many more to prefetch; a claim that has filled the slots may leave them to the next. Prefetching stops
    /// at the first job that one crash of the worker would discard, or that was in a crash before.
    pub ahead: usize,
}

impl Wanted {
    /// As many as there are free slots.
    pub fn new(queue: impl Into<Arc<str>>, slots: usize) -> Self {
        Self { queue: queue.into(), slots, ahead: 0 }
    }

    /// The most it may get.
    pub fn total(&self) -> usize {
        self.slots.saturating_add(self.ahead)
    }
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks. A worker that is not registered gets nothing.
    pub worker: WorkerId,
    /// What it wants of which queues; each queue once.
    pub wanted: Vec<Wanted>,
    /// The kinds it knows. Jobs of other kinds are left for others.
    pub kinds: Arc<[String]>,
    /// A storage may let only so many workers look at once. This one has come back often, and looks anyway.
    pub bypass_limit: bool,
    /// Jobs that were in so many crashes are quarantined, see [`RescuePolicy::quarantined_at`].
    pub quarantined_at: u16,
}

impl Claim {
    /// Asks for these, within the limits and for no quarantined job.
    pub fn new(worker: WorkerId, wanted: Vec<Wanted>, kinds: impl Into<Arc<[String]>>) -> Self {
        Self { worker, wanted, kinds: kinds.into(), bypass_limit: false, quarantined_at: u16::MAX }
    }

    /// The same for no queue yet.
    pub fn clone_without_wanted(&self) -> Self {
        Self { wanted: Vec::new(), kinds: self.kinds.clone(), ..*self }
    }
}

/// A body that runs on the runtime.
pub type AsyncBody =
    Arc<dyn for<'c> Fn(AnyConnection<'c>) -> BoxFuture<'c, Result<Transition, JobError>> + Send + Sync>;

/// A body that runs on the blocking pool.
pub type BlockingBody = Arc<dyn for<'c> Fn(AnyConnection<'c>) -> Result<Transition, JobError> + Send + Sync>;

/// What a handler's body does with the connection of its transaction. It may be called again, in another transaction.
#[derive(Clone)]
pub enum Body {
    /// Runs on the runtime.
    Async(AsyncBody),
    /// Runs on the blocking pool.
    Blocking(BlockingBody),
}

/// A transactional attempt: which connection, which lease, what to run.
#[derive(Clone)]
pub struct Transaction {
    /// The connection type the handler asked for; one the storage provides.
    pub connection: TypeId,
    /// The lease the commit depends on.
    pub lease: Lease,
    /// The handler and the decision on its answer.
    pub body: Body,
    /// Fires when the attempt must end now: the transaction is given up, its statement cancelled, its connection closed.
    pub abort: CancellationToken,
}

/// How a transactional attempt ended.
#[derive(Debug)]
pub enum Transacted {
    /// Effects and transition are committed together.
    Committed(Transition),
    /// The lease was gone: everything is rolled back.
    LeaseLost,
    /// The handler failed: everything is rolled back, the lease still stands.
    RolledBack(JobError),
    /// Another transaction was in the way (a serialization failure, a deadlock, a lock that was not to be had): everything is
    /// rolled back, the lease was not touched, and the same may succeed at once.
    Conflict {
        /// What it was, in words that hold no value of anybody's, with the database's code.
        what: &'static str,
        /// What failed because of it.
        error: JobError,
    },
    /// `abort` fired: everything is or will be rolled back.
    Aborted,
    /// There was no connection to begin with, or it did not begin; the handler was not called.
    NotBegun(StorageError),
    /// The database failed before or during the commit. The transaction may have been committed; a fenced finish tells.
    Unknown(StorageError),
}

/// A schedule as it is stored.
#[derive(Clone, Debug)]
pub struct StoredSchedule {
    /// Its name, unique; the kind for schedules declared in code.
    pub name: String,
    /// The kind of job it enqueues.
    pub kind: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA zone.
    pub timezone: String,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
    /// The newest tick that was dealt with.
    pub last_tick: DateTime<Utc>,
    /// Paused schedules do not tick.
    pub paused: bool,
}

/// A schedule as code declares it, with the job of one tick.
#[derive(Clone, Debug)]
pub struct DeclaredSchedule {
    /// Its name: the kind.
    pub name: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA zone.
    pub timezone: String,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
}

/// How the jobs of dead workers are treated.
#[derive(Clone, Copy, Debug)]
pub struct RescuePolicy {
    /// A job whose worker died with it this often is discarded; the last time it must have been the worker's only one.
    pub max_crashes: u16,
    /// How long such a job stays readable.
    pub retention: Retention,
    /// Also free jobs whose worker is not on the list at all, because a claim met the rescue of its worker. That takes a
    /// look at every running job.
    pub orphans: bool,
    /// The worker that rescues; `None` for somebody who has no heartbeat.
    pub rescuer: Option<Rescuer>,
}

/// What a worker that rescues knows about its own heartbeat. If its own row looks older than that, the clock of the database
/// has moved or the database stood still, and the rows of all others look older, too: then nobody is declared dead.
#[derive(Clone, Copy, Debug)]
pub struct Rescuer {
    /// Its id.
    pub worker: WorkerId,
    /// The time of its newest beat, by the database's clock.
    pub beat: DateTime<Utc>,
    /// The most that this beat may be old, by the worker's own clock.
    pub age: Duration,
}

impl RescuePolicy {
    /// From so many crashes on a job is quarantined: one more, with nobody else there to blame, and it is discarded.
    pub fn quarantined_at(&self) -> u16 {
        self.max_crashes.saturating_sub(1).max(1)
    }
}

/// How many quarantined jobs may run at the same time, each alone in its process: most workers are to go on with everything else,
/// and at least one quarantined job is to get on.
pub fn quarantined_at_once(workers: i64) -> i64 {
    (workers / WORKERS_FOR_A_QUARANTINED_JOB).max(1)
}

/// Of so many workers one may have a quarantined job.
pub const WORKERS_FOR_A_QUARANTINED_JOB: i64 = 4;

/// What a rescan came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescanned {
    /// There was nothing.
    Nothing,
    /// There was something, and claims see it now.
    Found,
    /// Others look, and only so many may: nobody knows.
    Refused,
}

/// What a rescue found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Jobs that wait again.
    pub returned: Vec<JobId>,
    /// Jobs that were discarded: too many crashes, or no attempt left.
    pub discarded: Vec<JobId>,
    /// Whether quarantined jobs are due, from this rescue or from an earlier one; of whatever queue and kind, served here or not.
    pub quarantined: bool,
    /// Some rows were locked, and their jobs are still to be freed: as [orphans](RescuePolicy::orphans).
    pub left_behind: bool,
    /// The row of the [`Rescuer`] itself looked too old: nobody was declared dead.
    pub held_off: bool,
}

/// A worker's own line to the database, alive on a thread of its own.
#[async_trait]
pub trait Heartbeat: Send {
    /// Says that the worker lives; answers the database's time. `None`: it was declared dead, and all its leases are gone.
    async fn beat(&mut self) -> StorageResult<Option<DateTime<Utc>>>;
}

/// What the worker needs of a database.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// The name of the database, for messages.
    fn name(&self) -> &'static str;

    /// Whether transactional handlers may ask for this connection type.
    fn provides(&self, connection: TypeId) -> bool;

    /// Fails unless this program can serve the schema: its own version, or a later one that says so.
    async fn check_schema(&self) -> StorageResult<()>;

    /// What holds for all workers of this database: its environment, and whether it is frozen. While it is, [`claim`](Self::claim),
    /// [`claim_quarantined`](Self::claim_quarantined), [`next_due`](Self::next_due), [`tick`](Self::tick) and [`prune`](Self::prune)
    /// find nothing to do; everything else goes on.
    async fn installation(&self) -> StorageResult<Installation>;

    /// Makes the worker known; its heartbeat starts now.
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()>;

    /// Takes the worker off the list. Its leases must be finished or released before.
    async fn deregister(&self, worker: WorkerId) -> StorageResult<()>;

    /// Opens the worker's line for heartbeats, on the calling runtime.
    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>>;

    /// Leases due jobs, at most as many as wanted, best first: attempt + 1, lease number + 1. None of them quarantined. None
    /// while others are at it, if there are too many; [`next_due`](Self::next_due) then says that something is due.
    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>>;

    /// Leases the best due quarantined job of these kinds and of the queues with a slot for it, unless [enough](quarantined_at_once) run
    /// that were claimed within the last two minutes.
    async fn claim_quarantined(&self, claim: &Claim) -> StorageResult<Option<ClaimedJob>>;

    /// How long until the earliest waiting job of these queues and kinds is due that is not quarantined; `None` when none waits,
    /// or none that is due `within` this time: a storage need not look farther ahead.
    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>>;

    /// Looks for jobs that [`claim`](Self::claim) and [`next_due`](Self::next_due) do not see, because they came to
    /// places the storage takes for empty; from now on they do. Runs beside them, and may take long. A storage whose
    /// claims see everything has nothing to do here.
    async fn rescan(&self, claim: &Claim) -> StorageResult<Rescanned>;

    /// Applies transitions, all in one transaction, each only if its lease still stands and nobody else has locked its row: it
    /// never waits for a lock. Returns the jobs moved; the others lost their lease, or their row is locked:
    /// [`leases`](Self::leases) tells which.
    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>>;

    /// The leases of this worker that stand: job and lease number. `among` says which jobs matter; others may be left out.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>>;

    /// Runs a handler inside the transaction that finishes its job.
    async fn transact(&self, transaction: Transaction) -> Transacted;

    /// Frees the jobs of workers whose lease ran out, counting a crash on each. Of several that were with one worker nobody
    /// knows which it was: they are quarantined at most.
    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued>;

    /// Stores the schedules that code declares: new ones start now, changed ones go on from now. Others are left alone: a
    /// newer program may have declared them. `false`: one is still to be changed, because another session has locked its row.
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool>;

    /// All schedules, and the database's time.
    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)>;

    /// Moves a schedule on and enqueues the jobs of its ticks, in one transaction, if its `last_tick` is still
    /// the given one. `false`: another worker did, or another session has locked its row.
    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool>;

    /// Deletes finished jobs whose time has come, at most `limit`. Returns how many.
    async fn prune(&self, limit: usize) -> StorageResult<usize>;

    /// Says whether the worker waits for work, so that enqueues wake it only when it does.
    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()>;

    /// Listens for work in these queues on a connection of its own until `stop`, and notifies `wake` at each hint. Reconnects
    /// by itself; a lost hint costs one poll interval.
    async fn listen(&self, queues: &[String], wake: Arc<Notify>, stop: CancellationToken);
}
