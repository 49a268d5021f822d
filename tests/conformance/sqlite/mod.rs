//! SQLite: each test has a file in a directory of its own. Some tests are for SQLite only.

mod commits;
mod damaged;
mod far_times;
mod joining;
mod locks;
mod log_size;
mod processes;
mod replaced;
mod urls;
mod volume;

use std::any::TypeId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{Connection, RunQueryDsl, SqliteConnection};
use diesel_async::AsyncConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs_core::storage::Body;
use diesel_jobs_core::{JobId, NewJob};
use diesel_jobs_storage::Database;
use uuid::Uuid;

use crate::client::{Client, async_client, insert, sync_client};
use crate::fixture::{Act, Fixture, Port, Provided, open};

type Wrapped = SyncConnectionWrapper<SqliteConnection>;
type Pooled = Object<Wrapped>;

sync_client!(SqliteConnection);
async_client!(Wrapped);
async_client!(Pooled);

pub(crate) struct Sqlite {
    directory: PathBuf,
    file: String,
    database: Database,
}

impl Sqlite {
    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.file)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn connect(&self) -> SqliteConnection {
        let mut conn = SqliteConnection::establish(&self.file).unwrap();
        conn.batch_execute("pragma busy_timeout = 120000").unwrap();
        conn
    }
}

impl Port for Sqlite {
    type Database = Database;

    async fn fresh() -> Self {
        let fixture = Self::empty().await;
        fixture.database.migrator.up().await.unwrap();
        fixture.connect().batch_execute("create table effect (name text not null)").unwrap();
        fixture
    }

    fn database(&self) -> &Database {
        &self.database
    }

    async fn insert(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        insert(&mut *self.client().await, jobs).await
    }

    async fn pass(&self, time: Duration) {
        Client::execute(&mut *self.client().await, &Self::passed(time)).await.unwrap();
    }
}

impl Fixture for Sqlite {
    async fn empty() -> Self {
        let directory = std::env::temp_dir().join(format!("jobs-test-{}", Uuid::now_v7()));
        std::fs::create_dir(&directory).unwrap();
        let file = directory.join("jobs.db").to_str().unwrap().to_owned();
        let database = open(&format!("sqlite://{file}")).await;
        Self { directory, file, database }
    }

    async fn again(&self) -> Database {
        open(&self.url()).await
    }

    async fn client(&self) -> Box<dyn Client> {
        Box::new(self.connect())
    }

    async fn clients(&self) -> Vec<(&'static str, Box<dyn Client>)> {
        let mut wrapped = Wrapped::establish(&self.file).await.unwrap();
        wrapped.execute("pragma busy_timeout = 120000").await.unwrap();
        let pool = Pool::builder(AsyncDieselConnectionManager::<Wrapped>::new(&self.file)).build().unwrap();
        let mut pooled = pool.get().await.unwrap();
        pooled.execute("pragma busy_timeout = 120000").await.unwrap();
        vec![
            ("SqliteConnection", Box::new(self.connect())),
            ("SyncConnectionWrapper", Box::new(wrapped)),
            ("deadpool object", Box::new(pooled)),
        ]
    }

    fn provided() -> Vec<Provided> {
        vec![("SqliteConnection", TypeId::of::<SqliteConnection>(), act)]
    }

    fn table(name: &str) -> String {
        format!("jobs_{name}")
    }

    fn schema_in_a_number() -> &'static str {
        "select count(*) * 1000000 + sum(length(sql)) as number from sqlite_master"
    }

    fn payloads() -> &'static str {
        "select count(*) as number from jobs_job where length(args) > 50000"
    }

    const VIEW: &'static str = "jobs_job_view";

    const TABLES: &'static [&'static str] = &[
        "job",
        "job_error",
        "worker",
        "queue",
        "installation",
        "output",
        "permit",
        "nudge",
        "rate",
        "fair_turn",
        "admission_failure",
        "unique_key",
    ];

    const EPOCH: &'static str = "0";
    const YEAR_AHEAD: &'static str = "(unixepoch() + 31536000) * 1000000";

    fn passed(time: Duration) -> String {
        let passed = time.as_micros();
        format!(
            "update jobs_job set run_at = case when flags & 2 then run_at else run_at - {passed} end, due_at = due_at - {passed}, enqueued_at = enqueued_at - {passed},
                 claimed_at = claimed_at - {passed}, finished_at = finished_at - {passed}, expires_at = expires_at - {passed}, start_by = start_by - {passed};
             update jobs_job_error set at = at - {passed};
             update jobs_unique_key set until = until - {passed};
             update jobs_rate set full_at = full_at - {passed}, next_at = next_at - {passed};
             update jobs_admission_failure set next_at = next_at - {passed};
             update jobs_worker set started_at = started_at - {passed}, heartbeat_at = heartbeat_at - {passed}"
        )
    }

    const HASTE: &'static str = "";

    const UNHURRIED: &'static str = "";

    const ONLY_PAUSES: bool = true;
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the database of this test is kept: {}", self.file);
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

fn act(act: Act) -> Body {
    Body::Blocking(Arc::new(move |conn| {
        let conn = conn.downcast_mut::<SqliteConnection>().expect("the connection that was asked for");
        diesel::sql_query("insert into effect (name) values (?)")
            .bind::<diesel::sql_types::Text, _>(act.effect)
            .execute(conn)
            .unwrap();
        if let Some(hold) = act.hold() {
            hold.started.send(()).unwrap();
            let _ = hold.go_on.blocking_recv();
        }
        act.answer()
    }))
}
