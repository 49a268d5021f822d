//! What each storage provides to the tests: empty databases, its types of connections, and some operations that no port
//! has.

use std::any::TypeId;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{Body, Storage};
use diesel_jobs_core::{AttemptError, JobError, JobId, JobRecord, NewJob, Transition};
use diesel_jobs_storage::{Database, Stopwatch};
use tokio::sync::oneshot;

use crate::client::Client;

/// What a test can look at behind a storage.
pub(crate) trait Inspect: Send + Sync {
    /// The storage under test.
    fn storage(&self) -> &dyn Storage;

    /// The job and its failures. `None` if it is not stored.
    fn show(&self, id: JobId) -> impl Future<Output = Option<(JobRecord, Vec<AttemptError>)>> + Send;

    /// The storage's time.
    fn now(&self) -> impl Future<Output = DateTime<Utc>> + Send;
}

impl Inspect for Database {
    fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    async fn show(&self, id: JobId) -> Option<(JobRecord, Vec<AttemptError>)> {
        self.operator.show(id).await.unwrap()
    }

    async fn now(&self) -> DateTime<Utc> {
        self.storage.schedules(&[]).await.unwrap().now
    }
}

/// The store of one test, as far as a worker needs it. A new database passes the tests of this trait first.
pub(crate) trait Port: Send + Sync + Sized + 'static {
    type Database: Inspect;

    /// Creates a store without jobs. A database has its schema, and a table `effect (name text)` of the application.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The storage under test.
    fn database(&self) -> &Self::Database;

    /// Enqueues jobs, and returns their ids in the same order.
    fn insert(&self, jobs: Vec<NewJob>) -> impl Future<Output = Vec<JobId>> + Send;

    /// Makes everything that is stored older by `time`, as if that time had passed.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The database of one test. It is dropped with this value, and kept if the test panics.
pub(crate) trait Fixture: Port<Database = Database> {
    /// Creates a database without a schema.
    fn empty() -> impl Future<Output = Self> + Send;

    /// Opens the same database again, as another process does.
    fn again(&self) -> impl Future<Output = Database> + Send;

    /// Opens a connection for the test's own statements.
    fn client(&self) -> impl Future<Output = Box<dyn Client>> + Send;

    /// Opens one connection of each type that an application may use.
    fn clients(&self) -> impl Future<Output = Vec<(&'static str, Box<dyn Client>)>> + Send;

    /// The connection types that transactional handlers may use with this storage.
    fn provided() -> Vec<Provided>;

    /// The name of one of our tables, for operations that no port has.
    fn table(name: &str) -> String;

    /// A query that returns a number computed from the definitions of everything in the database.
    fn schema_in_a_number() -> &'static str;

    /// A query that returns the number of stored large arguments.
    fn payloads() -> &'static str;

    /// The view of all jobs.
    const VIEW: &'static str;

    /// The tables of ours in which jobs and workers leave rows.
    const TABLES: &'static [&'static str];

    /// The beginning of 1970, as our tables store it.
    const EPOCH: &'static str;

    /// A year from now, as our tables store it: what they show after the clock has gone back.
    const YEAR_AHEAD: &'static str;

    /// SQL that moves the times in our tables back by `time`, as if that time had passed.
    fn passed(time: Duration) -> String;

    /// SQL after which the commits of new connections do not wait for the disk, if the storage has such a setting.
    const HASTE: &'static str;

    /// SQL after which a pass of admission may handle jobs one by one for an hour, if the storage has such a limit.
    /// Tests that assert what one pass does need it. The doctor calls it drift.
    const UNHURRIED: &'static str;

    /// Whether the storage only sleeps when it waits. If it waits for a server instead, the test's clock must run.
    const ONLY_PAUSES: bool;
}

/// A connection type for transactional handlers: its name, its type id, and a function that makes a body from an
/// [`Act`].
pub(crate) type Provided = (&'static str, TypeId, fn(Act) -> Body);

/// What a transactional handler of the tests does: it writes an effect, waits if it has a [`Hold`], and returns
/// `answer`, a transition for each job.
pub(crate) struct Act {
    pub(crate) effect: &'static str,
    pub(crate) hold: Mutex<Option<Hold>>,
    pub(crate) answer: Result<Vec<Transition>, &'static str>,
}

impl Act {
    pub(crate) fn new(effect: &'static str, answer: Result<Transition, &'static str>) -> Self {
        Self::of_batch(effect, answer.map(|transition| vec![transition]))
    }

    /// The handler of a batch.
    pub(crate) fn of_batch(effect: &'static str, answer: Result<Vec<Transition>, &'static str>) -> Self {
        Self { effect, hold: Mutex::default(), answer }
    }

    /// Returns the hold, if there is one, to the first run only.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.hold.lock().unwrap().take()
    }

    /// Returns the handler's result.
    pub(crate) fn answer(&self) -> Result<Vec<Transition>, JobError> {
        self.answer.clone().map_err(JobError::msg)
    }
}

/// Lets a test act while a handler runs. This is the handler's end.
pub(crate) struct Hold {
    pub(crate) started: oneshot::Sender<()>,
    pub(crate) go_on: oneshot::Receiver<()>,
}

/// The test's end of a [`Hold`].
pub(crate) struct Held {
    pub(crate) started: oneshot::Receiver<()>,
    pub(crate) go_on: oneshot::Sender<()>,
}

pub(crate) fn hold() -> (Hold, Held) {
    let (started, has_started) = oneshot::channel();
    let (go, go_on) = oneshot::channel();
    (Hold { started, go_on }, Held { started: has_started, go_on: go })
}

/// The longest time of a test. The slowest take half a minute on a quiet machine, and others run beside them, on five
/// servers at once.
const LONGEST: Duration = Duration::from_secs(1200);

/// Something that must happen is waited for this long. This only ends a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Opens a database whose claims do not depend on the speed of the machine.
pub(crate) async fn open(url: &str) -> Database {
    Database::open_with(url, 4, Stopwatch::StandsStill).await.unwrap()
}

/// Runs one test on a fixture of its own.
pub(crate) fn run<F: Port, T: Future<Output = ()>>(claim: impl FnOnce(F) -> T) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = F::fresh().await;
        // A storage that waits for ever must fail here, so that the failure names the test.
        tokio::time::timeout(LONGEST, claim(fixture)).await.expect("the test takes too long");
    });
}
