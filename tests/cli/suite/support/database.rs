//! A database for one test, removed when the test is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use diesel::{Connection as _, SqliteConnection, connection::SimpleConnection as _};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use jobs::{Enqueue, JobId};
use serde_json::Value;

use super::process::{Run, Running, worker};
use super::until;

/// A directory that is removed with its contents when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(unique("jobs-cli-test"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One database, at first empty.
pub(crate) struct Db {
    pub(crate) url: String,
    home: Home,
}

enum Home {
    Sqlite { _gone_with_it: Scratch },
    Postgres { server: String, name: String },
}

impl Db {
    pub(crate) fn sqlite() -> Self {
        let scratch = Scratch::new();
        Self {
            url: format!("sqlite://{}/jobs.db", scratch.path().display()),
            home: Home::Sqlite { _gone_with_it: scratch },
        }
    }

    pub(crate) fn postgres() -> Self {
        let server = std::env::var("JOBS_TEST_DATABASE_URL").expect(
            "JOBS_TEST_DATABASE_URL is not set; run these tests with `cargo xtask test`, which starts a server",
        );
        let name = unique("jobs_cli_test").replace('-', "_");
        on_postgres(&server, &format!("create database {name}"));
        let (address, parameters) = server.split_once('?').unwrap_or((&server, ""));
        let (host, _) = address.rsplit_once('/').expect("a URL with a database name");
        Self { url: format!("{host}/{name}?{parameters}"), home: Home::Postgres { server, name } }
    }

    /// Creates our tables in it.
    pub(crate) fn migrated(self) -> Self {
        self.run(&["migrate"]).succeeded();
        self
    }

    /// Runs the fixture's worker on this database, and waits for its end.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        worker("fixture-worker").args(args).env("DATABASE_URL", &self.url).run()
    }

    /// Runs a command that must succeed and returns its JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).succeeded().json()
    }

    /// Starts the fixture's worker, and does not wait for its end.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        worker("fixture-worker").args(args).env("DATABASE_URL", &self.url).start()
    }

    /// Runs the fixture's worker with a closed pipe as standard output, and waits for its end.
    pub(crate) fn run_into_closed_pipe(&self, args: &[&str]) -> Run {
        worker("fixture-worker").args(args).env("DATABASE_URL", &self.url).run_into_closed_pipe()
    }

    /// The name of the table of waiting jobs.
    pub(crate) fn waiting_table(&self) -> &'static str {
        match self.home {
            Home::Sqlite { .. } => "jobs.job",
            Home::Postgres { .. } => "jobs.ready",
        }
    }

    /// Ten minutes, as an expression of the database.
    pub(crate) fn ten_minutes(&self) -> &'static str {
        match self.home {
            Home::Sqlite { .. } => "600000000",
            Home::Postgres { .. } => "interval '10 minutes'",
        }
    }

    /// A list of one name, as an expression of the database.
    pub(crate) fn one_name(&self, name: &str) -> String {
        match self.home {
            Home::Sqlite { .. } => format!("'[\"{name}\"]'"),
            Home::Postgres { .. } => format!("array['{name}']"),
        }
    }

    /// Enqueues on a connection of the backend, as an application does.
    pub(crate) fn enqueue(&self, job: impl Enqueue) -> i64 {
        let JobId(id) = match &self.home {
            Home::Sqlite { .. } => job.enqueue(&mut self.sqlite_connection()).unwrap().id(),
            Home::Postgres { .. } => return enqueue_on_postgres(&self.url, job),
        };
        id
    }

    /// The URL of the server, and the name of the database. PostgreSQL only.
    pub(crate) fn server(&self) -> (&str, &str) {
        match &self.home {
            Home::Postgres { server, name } => (server, name),
            Home::Sqlite { .. } => panic!("SQLite has no server"),
        }
    }

    /// Enqueues many jobs with one statement.
    pub(crate) fn enqueue_many(&self, kind: &str, queue: &str, jobs: u64) {
        self.enqueue_many_with(kind, queue, jobs, r#"{"millis": 0}"#);
    }

    /// The same with these arguments.
    pub(crate) fn enqueue_many_with(&self, kind: &str, queue: &str, jobs: u64, args: &str) {
        let table = self.waiting_table();
        let insert = format!("insert into {table} (kind, queue, args) select '{kind}', '{queue}', '{args}' from n");
        self.execute(&format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {jobs}) {insert}"
        ));
    }

    /// Enqueues as another database user. PostgreSQL only.
    pub(crate) fn enqueue_as(&self, user: &str, job: impl Enqueue) -> i64 {
        enqueue_on_postgres(&self.url_as(user), job)
    }

    /// Runs SQL that is written for PostgreSQL's tables. On SQLite `jobs.x` becomes `jobs_x`.
    pub(crate) fn execute(&self, sql: &str) {
        match &self.home {
            Home::Sqlite { .. } => self.sqlite_connection().batch_execute(&sql.replace("jobs.", "jobs_")).unwrap(),
            Home::Postgres { .. } => on_postgres(&self.url, sql),
        }
    }

    /// Runs a migration's file in one transaction, as Diesel does. With `allowed` it may delete jobs.
    pub(crate) fn migrate_with(&self, sql: &str, allowed: bool) -> Result<(), String> {
        match &self.home {
            Home::Sqlite { .. } => {
                let mut conn = self.sqlite_connection();
                if allowed {
                    conn.batch_execute("create table jobs_allow_drop (yes)").unwrap();
                }
                conn.transaction(|conn| conn.batch_execute(sql)).map_err(|error| error.to_string())
            }
            Home::Postgres { .. } => runtime().block_on(async {
                let (address, parameters) = self.url.split_once('?').unwrap_or((&self.url, ""));
                let allow = if allowed { "&options=-c%20jobs.allow_drop%3Don" } else { "" };
                let options = format!("{parameters}{allow}");
                let url = format!("{address}?{}", options.trim_start_matches('&'));
                let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
                conn.transaction(async |conn| conn.batch_execute(sql).await)
                    .await
                    .map_err(|error: diesel::result::Error| error.to_string())
            }),
        }
    }

    /// The URL with a password. The tests' server does not ask for it.
    pub(crate) fn url_with_password(&self) -> String {
        match &self.home {
            Home::Sqlite { .. } => self.url.clone(),
            Home::Postgres { .. } => self.url.replacen('@', ":s3cret@", 1),
        }
    }

    /// Runs SQL on a thread of its own, until the database is dropped. PostgreSQL only.
    pub(crate) fn execute_in_background(&self, sql: &'static str) {
        let url = self.url.clone();
        std::thread::spawn(move || {
            runtime().block_on(async {
                let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
                // It ends with an error when the database is dropped.
                let _ = conn.batch_execute(sql).await;
            });
        });
    }

    /// Waits until such SQL has come to its `pg_sleep`.
    pub(crate) fn await_sleep(&self) {
        let sleeping = "pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()";
        until(|| (self.count(sleeping) == 1).then_some(()).ok_or("nothing sleeps"));
    }

    /// Until the result is dropped, every enqueue waits.
    pub(crate) fn hold_writes(&self) -> Box<dyn std::any::Any> {
        if let Home::Sqlite { .. } = self.home {
            let mut conn = self.sqlite_connection();
            conn.batch_execute("begin immediate").unwrap();
            return Box::new(conn);
        }
        let runtime = runtime();
        let conn = runtime.block_on(async {
            let mut conn = AsyncPgConnection::establish(&self.url).await.unwrap();
            conn.batch_execute("begin; lock table jobs.ready in exclusive mode").await.unwrap();
            conn
        });
        Box::new((conn, runtime))
    }

    /// Returns the number of rows of `from`. PostgreSQL only.
    pub(crate) fn count(&self, from: &str) -> i64 {
        #[derive(diesel::QueryableByName)]
        struct Count {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            count: i64,
        }
        let query = diesel::sql_query(format!("select count(*) as count from {from}"));
        runtime().block_on(async {
            let mut conn = AsyncPgConnection::establish(&self.url).await.unwrap();
            query.get_result::<Count>(&mut conn).await.unwrap().count
        })
    }

    /// Returns the column `text` of a query's single row. PostgreSQL only.
    pub(crate) fn text(&self, query: &str) -> String {
        #[derive(diesel::QueryableByName)]
        struct Text {
            #[diesel(sql_type = diesel::sql_types::Text)]
            text: String,
        }
        runtime().block_on(async {
            let mut conn = AsyncPgConnection::establish(&self.url).await.unwrap();
            diesel::sql_query(query).get_result::<Text>(&mut conn).await.unwrap().text
        })
    }

    /// Moves the last heartbeats of all workers back, so that those that were killed count as dead.
    pub(crate) fn let_leases_end(&self) {
        let day = match self.home {
            Home::Sqlite { .. } => "86400000000",
            Home::Postgres { .. } => "interval '1 day'",
        };
        self.execute(&format!("update jobs.worker set heartbeat_at = heartbeat_at - {day}"));
    }

    /// The path of the file. SQLite only.
    pub(crate) fn file(&self) -> &Path {
        Path::new(self.url.strip_prefix("sqlite://").expect("a SQLite URL"))
    }

    /// The URL with another user. PostgreSQL only.
    pub(crate) fn url_as(&self, user: &str) -> String {
        let (_, place) = self.url.split_once('@').expect("a URL with a user");
        format!("postgres://{user}@{place}")
    }

    /// Waits until a job is in this state. Returns the job.
    pub(crate) fn await_state(&self, id: i64, state: &str) -> Value {
        until(|| {
            let job = self.json(&["show", &id.to_string()]);
            if job["state"] == state { Ok(job) } else { Err(format!("job {id} did not become {state}: {job}")) }
        })
    }

    /// Waits until an attempt of a job has failed. Returns the job.
    pub(crate) fn await_failure(&self, id: i64) -> Value {
        until(|| {
            let job = self.json(&["show", &id.to_string()]);
            let failed = job["errors"].as_array().is_some_and(|errors| !errors.is_empty());
            if failed { Ok(job) } else { Err(format!("no attempt of job {id} failed: {job}")) }
        })
    }

    fn sqlite_connection(&self) -> SqliteConnection {
        let mut conn = SqliteConnection::establish(&self.file().to_string_lossy()).unwrap();
        conn.batch_execute("pragma busy_timeout = 300000").unwrap();
        conn
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if let Home::Postgres { server, name } = &self.home {
            on_postgres(server, &format!("drop database if exists {name} with (force)"));
        }
    }
}

fn enqueue_on_postgres(url: &str, job: impl Enqueue) -> i64 {
    let JobId(id) = runtime().block_on(async {
        let mut conn = AsyncPgConnection::establish(url).await.unwrap();
        job.enqueue(&mut conn).await.unwrap().id()
    });
    id
}

/// Runs SQL on the database of this URL.
pub(crate) fn on_postgres(url: &str, sql: &str) {
    runtime().block_on(async {
        let mut conn = AsyncPgConnection::establish(url).await.unwrap();
        conn.batch_execute(sql).await.unwrap();
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A name that no other test has. A killed test leaves its database in a server that stays, and a later process may
/// have its id.
fn unique(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    format!("{prefix}-{}-{now}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}
