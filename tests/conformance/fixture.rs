//! What a storage brings to the tests: fresh databases, its kinds of connections, and a few things no port offers.

use std::any::TypeId;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use diesel_jobs_core::storage::Body;
use diesel_jobs_core::{JobError, Transition};
use diesel_jobs_storage::Database;
use tokio::sync::oneshot;

use crate::client::Client;

/// One database of its own for one test. Dropped with it, kept when the test panics.
pub(crate) trait Fixture: Send + Sync + Sized + 'static {
    /// Without a schema.
    fn empty() -> impl Future<Output = Self> + Send;

    /// With the schema, and a table `effect (name text)` of the application.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The storage under test.
    fn database(&self) -> &Database;

    /// Another process's view of the same database.
    fn again(&self) -> impl Future<Output = Database> + Send;

    /// One connection of each kind an application may use.
    fn clients(&self) -> impl Future<Output = Vec<(&'static str, Box<dyn Client>)>> + Send;

    /// The connection types transactional handlers may ask for here.
    fn provided() -> Vec<Provided>;

    /// The name of one of our tables, for what no port offers.
    fn table(name: &str) -> String;

    /// Makes a number of the definitions of everything there is in the database.
    fn schema_in_a_number() -> &'static str;

    /// Counts the large arguments that are stored.
    fn payloads() -> &'static str;

    /// Our tables that jobs and workers leave rows in.
    const TABLES: &'static [&'static str];

    /// The beginning of 1970, as it stands in our tables.
    const EPOCH: &'static str;

    /// Moves the times in our tables back, as if so much more had passed since.
    fn passed(time: Duration) -> String;

    /// Has connections opened from now on not wait for the disk, where that can be said.
    const HASTE: &'static str;

    /// Whether the storage, when it waits, only pauses; one that waits for a server needs a clock that goes.
    const ONLY_PAUSES: bool;

    /// A connection to look and set things up with.
    fn client(&self) -> impl Future<Output = Box<dyn Client>> + Send {
        async { self.clients().await.swap_remove(0).1 }
    }
}

/// A connection type for transactional handlers: its name, the type, and a body that plays an [`Act`] on it.
pub(crate) type Provided = (&'static str, TypeId, fn(Act) -> Body);

/// What a transactional handler of the tests does: writes an effect, waits if told, and answers.
pub(crate) struct Act {
    pub(crate) effect: &'static str,
    pub(crate) hold: Mutex<Option<Hold>>,
    pub(crate) answer: Result<Transition, &'static str>,
}

impl Act {
    pub(crate) fn new(effect: &'static str, answer: Result<Transition, &'static str>) -> Self {
        Self { effect, hold: Mutex::default(), answer }
    }

    /// The first run is held, if any.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.hold.lock().unwrap().take()
    }

    /// The answer as a handler gives it.
    pub(crate) fn answer(&self) -> Result<Transition, JobError> {
        self.answer.clone().map_err(JobError::msg)
    }
}

/// Lets a test do something while a handler runs.
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

/// Runs one claim on a fixture of its own.
pub(crate) fn run<F: Fixture, T: Future<Output = ()>>(claim: impl FnOnce(F) -> T) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = F::fresh().await;
        // A storage that waits for something that never comes must fail here, with a name.
        tokio::time::timeout(Duration::from_secs(120), claim(fixture)).await.expect("the test takes too long");
    });
}
