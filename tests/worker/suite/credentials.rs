//! Credentials that the application gives for each new connection, and a server that refuses them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{Own, Server, Stop};
use diesel::PgConnection;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::metrics::{Event, Recorder};
use diesel_jobs::worker::{Credentials, DatabaseBuilder};
use diesel_jobs::{Database, Enqueue as _, JobContext, JobState, State, StorageError, Worker, WorkerError, job};
use support::{LIMIT, Probe, Running, registry, until, within};
use tempfile::TempDir;

#[job(max_attempts = 1)]
async fn paid_async(conn: &mut AsyncPgConnection, ctx: &JobContext, State(probe): State<Probe>) {
    let _ = conn;
    probe.say(ctx, "ran");
}

/// Its connection is libpq's.
#[job(max_attempts = 1)]
fn paid_blocking(conn: &mut PgConnection, ctx: &JobContext, State(probe): State<Probe>) {
    let _ = conn;
    probe.say(ctx, "ran");
}

#[job(max_attempts = 1)]
async fn paid_plain(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

/// A server that asks the role `app` for a password.
struct World {
    admin: AsyncPgConnection,
    port: u16,
    /// The credentials that the application has: the user and the password.
    known: Arc<Mutex<(&'static str, &'static str)>>,
    // The server must end before its directory.
    server: Own,
    _dir: TempDir,
}

impl World {
    async fn new() -> Self {
        // The server's user must be able to enter it, or its files are elsewhere.
        let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        let server = Own::at(dir.path()).unwrap();
        let port = server.launch_with_passwords().unwrap();
        let mut admin = AsyncPgConnection::establish(&Server::url(port)).await.unwrap();
        Database::open(&Server::url(port), 0).await.unwrap().migrator.up().await.unwrap();
        admin.batch_execute("create role app login superuser password 'one'").await.unwrap();
        Self { admin, port, known: Arc::new(Mutex::new(("app", "one"))), server, _dir: dir }
    }

    /// The URL names a password that is never right.
    fn builder(&self) -> DatabaseBuilder {
        Database::builder(format!("postgres://app:wrong@127.0.0.1:{}/postgres", self.port)).handlers(2)
    }

    fn asked(&self) -> DatabaseBuilder {
        let known = self.known.clone();
        self.builder().credentials(move || {
            let (user, password) = *known.lock().map_err(|_| std::io::Error::other("poisoned"))?;
            Ok::<_, std::io::Error>(Credentials::password(password).user(user))
        })
    }

    fn know(&self, user: &'static str, password: &'static str) {
        *self.known.lock().unwrap() = (user, password);
    }

    /// Changes what the server accepts, and ends all sessions, also those that are about to begin.
    async fn change(&mut self, sql: &str) {
        self.admin.batch_execute(sql).await.unwrap();
        self.server.halt(Stop::Fast).unwrap();
        self.server.launch(Some(self.port), "").unwrap();
        self.admin = AsyncPgConnection::establish(&Server::url(self.port)).await.unwrap();
    }
}

async fn await_refusal(database: &Database) {
    until("a connection that is refused", async || match database.storage.check_schema().await {
        Err(StorageError::Credentials(problem)) => Some(problem.to_string()),
        _ => None,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_of_a_worker_has_the_credentials_of_its_time() {
    let mut world = World::new().await;
    let database = world.asked().open().await.unwrap();
    let (probe, mut events) = Probe::new();
    let worker = Worker::builder(database.storage.clone())
        .registry(registry![PaidAsync, PaidBlocking, PaidPlain])
        .state(probe)
        .poll_interval(Duration::from_millis(50));
    let worker = Running::start(worker);
    until("the start", async || worker.handle().is_healthy().then_some(())).await;
    let changes = [
        "select 1",
        "alter role app password 'two'",
        // The user changes together with the password.
        "create role app2 login superuser password 'three'; alter role app nologin",
    ];
    let known = [("app", "one"), ("app", "two"), ("app2", "three")];
    for (change, (user, password)) in changes.into_iter().zip(known) {
        world.change(change).await;
        if user != "app" || password != "one" {
            await_refusal(&database).await;
        }
        let ids = [
            PaidAsync {}.enqueue(&mut world.admin).await.unwrap(),
            PaidBlocking {}.enqueue(&mut world.admin).await.unwrap(),
            PaidPlain {}.enqueue(&mut world.admin).await.unwrap(),
        ];
        world.know(user, password);
        for _ in &ids {
            events.expect("ran").await;
        }
        for id in ids.map(|id| id.id()) {
            let end = database.wait(id, LIMIT).await.unwrap();
            assert_eq!(end.state, JobState::Completed);
            let (record, errors) = database.operator.show(id).await.unwrap().unwrap();
            assert!(record.attempt == 1 && errors.is_empty(), "attempt {}: {errors:?}", record.attempt);
        }
        until("a heartbeat", async || worker.handle().is_healthy().then_some(())).await;
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_refused_for_long_returns_why() {
    let mut world = World::new().await;
    let database = world.asked().open().await.unwrap();
    let worker = Worker::builder(database.storage.clone())
        .registry(registry![PaidPlain])
        .state(Probe::new().0)
        .poll_interval(Duration::from_millis(50));
    // Five minutes have not passed, and then no time has to.
    let patient = Running::start(worker);
    until("the start", async || patient.handle().is_healthy().then_some(())).await;
    let worker = Worker::builder(database.storage.clone())
        .registry(registry![PaidPlain])
        .state(Probe::new().0)
        .poll_interval(Duration::from_millis(50))
        .refused_for(Duration::ZERO)
        .build()
        .unwrap();
    let handle = worker.handle();
    let run = tokio::spawn(worker.run_until(std::future::pending()));
    until("the start", async || handle.is_healthy().then_some(())).await;
    world.change("alter role app password 'two'").await;
    let ended = within(LIMIT, "the worker's end", run).await.unwrap();
    let Err(WorkerError::Storage(problem @ StorageError::Credentials(_))) = ended else { panic!("{ended:?}") };
    let said = problem.to_string();
    assert!(said.starts_with("the server refuses the credentials: ") && said.contains("\"app\""), "{said}");
    assert!(problem.is_transient(), "new credentials may be accepted");
    // The other worker still tries, and ends without an error when it is asked to.
    world.know("app", "two");
    until("a heartbeat", async || patient.handle().is_healthy().then_some(())).await;
    patient.stop().await;
}

/// How the transactions of handlers ended that did not begin.
#[derive(Clone, Default)]
struct NotBegun(Arc<Mutex<Vec<String>>>);

impl Recorder for NotBegun {
    fn record(&self, event: &Event<'_>) {
        if let Event::StorageOperation { operation: "transact", error: Some(error), .. } = event {
            self.0.lock().unwrap().push((*error).to_owned());
        }
    }
}

/// libpq passes on no code of the error.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_only_libpq_gets_is_known_as_one() {
    let mut world = World::new().await;
    let database = world.asked().open().await.unwrap();
    let (probe, mut events) = Probe::new();
    let not_begun = NotBegun::default();
    let worker = Worker::builder(database.storage.clone())
        .registry(registry![PaidAsync, PaidBlocking])
        .state(probe)
        .recorder(Arc::new(not_begun.clone()))
        .poll_interval(Duration::from_millis(50));
    let worker = Running::start(worker);
    PaidAsync {}.enqueue(&mut world.admin).await.unwrap();
    events.expect("ran").await;
    // The open connections continue to work, and libpq has none yet.
    world.admin.batch_execute("alter role app password 'two'").await.unwrap();
    let id = PaidBlocking {}.enqueue(&mut world.admin).await.unwrap().id();
    until("a refusal", async || not_begun.0.lock().unwrap().first().cloned()).await;
    world.know("app", "two");
    events.expect("ran").await;
    assert_eq!(database.wait(id, LIMIT).await.unwrap().state, JobState::Completed);
    let not_begun = not_begun.0.lock().unwrap().clone();
    assert!(not_begun.iter().all(|error| error == "credentials"), "{not_begun:?}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_without_credentials_fails_the_connection_and_not_the_process() {
    let world = World::new().await;
    let problem = async |builder: DatabaseBuilder| {
        let database = builder.open().await.unwrap();
        let problem = database.storage.check_schema().await.unwrap_err();
        assert!(matches!(problem, StorageError::Unavailable(_)), "{problem}");
        problem.to_string()
    };
    let failing = world.builder().credentials(|| Err::<Credentials, _>("the token service is down"));
    let said = problem(failing).await;
    assert!(said.contains("no credentials for a new connection: the token service is down"), "{said}");
    let panicking = world.builder().credentials(|| -> Result<Credentials, std::io::Error> { panic!("a bug") });
    let said = problem(panicking).await;
    assert!(said.contains("panicked"), "{said}");
    // It may use the runtime.
    let asynchronous = world.builder().credentials(|| {
        let token = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            "one"
        };
        Ok::<_, std::io::Error>(Credentials::password(tokio::runtime::Handle::current().block_on(token)))
    });
    let database = asynchronous.open().await.unwrap();
    database.storage.check_schema().await.unwrap();
}

#[tokio::test]
async fn sqlite_refuses_credentials_and_a_password_is_not_printed() {
    let builder = Database::builder("sqlite::memory:")
        .credentials(|| Ok::<_, std::io::Error>(Credentials::password("s3cret").user("app")));
    assert!(!format!("{builder:?}").contains("s3cret"));
    let problem = builder.open().await.unwrap_err();
    assert!(matches!(problem, StorageError::Config(_)), "{problem}");
    assert!(problem.to_string().contains("a SQLite file, which has no credentials"), "{problem}");
    let credentials = Credentials::password("s3cret").user("app");
    assert_eq!(format!("{credentials:?}"), "Credentials { .. }");
}
