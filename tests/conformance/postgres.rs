//! PostgreSQL: each test has a database of its own, cloned from a migrated template, on a server that belongs to the
//! tests. Some tests are for PostgreSQL only.

mod admission_failing;
mod atomic;
mod changing;
mod collation;
mod doctor;
mod encoding;
mod expiring;
mod fair;
mod floors;
mod followers;
mod full_queue;
mod hostile_sql;
mod isolation;
mod joining;
mod keys;
mod late_outputs;
mod limits;
mod locked;
mod notifying;
mod on_full;
mod passing_and_claiming;
mod passing_on;
mod pipelining;
mod poisoned;
mod polling;
mod previewing;
mod publication;
mod rates;
mod roles;
mod sessions;
mod several;
mod unique_keys;
mod waiting_triggers;

use std::any::TypeId;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_jobs_core::storage::Body;
use diesel_jobs_core::{JobId, NewJob};
use diesel_jobs_storage::Database;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::client::{Client, async_client, insert};
use crate::fixture::{Act, Fixture, Port, Provided, open};

type Pooled = Object<AsyncPgConnection>;

async_client!(AsyncPgConnection);
async_client!(Pooled);
#[cfg(feature = "postgres-sync")]
crate::client::sync_client!(diesel::PgConnection);

/// The clauses of `create database` that name the template, which is migrated once per run, and how it is copied.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();

/// How PostgreSQL 15 and later copy a template: half the processor time of the default, which writes each page to the
/// WAL. Earlier versions always copy files.
const COPY_FILES: &str = "strategy file_copy";

pub(crate) struct Postgres {
    name: String,
    url: String,
    database: Database,
}

fn server() -> String {
    std::env::var("JOBS_TEST_DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "JOBS_TEST_DATABASE_URL is not set: PostgreSQL's tests need a server of their own; run them with `cargo xtask test`"
        )
    })
}

/// The server's URL with the name of another database.
fn url_of(name: &str) -> String {
    let server = server();
    let (before, options) = server.split_once('?').map_or((&*server, None), |(url, options)| (url, Some(options)));
    let (authority, _) = before.rsplit_once('/').expect("JOBS_TEST_DATABASE_URL names a database");
    format!("{authority}/{name}{}", options.map_or_else(String::new, |options| format!("?{options}")))
}

/// Runs statements as the server's superuser.
async fn admin(sql: &str) {
    let mut conn = AsyncPgConnection::establish(&server()).await.expect("JOBS_TEST_DATABASE_URL can be reached");
    conn.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Runs statements as superuser in a destructor, inside or outside of a runtime. It uses a thread of its own, because a
/// runtime must not be blocked.
fn admin_at_the_end(statements: Vec<String>) {
    let done = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for sql in &statements {
            runtime.block_on(admin(sql));
        }
    });
    if done.join().is_err() {
        eprintln!("something on the tests' server could not be dropped");
    }
}

/// Opens one connection of each type that an application may have to PostgreSQL.
async fn clients_of(url: &str) -> Vec<(&'static str, Box<dyn Client>)> {
    let plain = AsyncPgConnection::establish(url).await.unwrap();
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(url)).build().unwrap();
    let pooled: Pooled = pool.get().await.unwrap();
    vec![
        ("AsyncPgConnection", Box::new(plain)),
        ("deadpool object", Box::new(pooled)),
        #[cfg(feature = "postgres-sync")]
        ("PgConnection", Box::new(<diesel::PgConnection as diesel::Connection>::establish(url).unwrap())),
    ]
}

async fn template() -> &'static str {
    TEMPLATE
        .get_or_init(async || {
            let name = new_name("template");
            admin(&format!("create database {name}")).await;
            let mut conn = AsyncPgConnection::establish(&url_of(&name)).await.unwrap();
            diesel_jobs_storage::TransactionConnection::migrate(&mut conn).await.unwrap();
            conn.batch_execute("create table effect (name text not null)").await.unwrap();
            let version = conn.number("select current_setting('server_version_num')::bigint as number").await;
            format!("template {name} {}", if version >= 150_000 { COPY_FILES } else { "" })
        })
        .await
}

fn new_name(what: &str) -> String {
    format!("jobs_{what}_{}", Uuid::now_v7().simple())
}

impl Postgres {
    async fn open(name: String) -> Self {
        let url = url_of(&name);
        let database = open(&url).await;
        Self { name, url, database }
    }
}

impl Port for Postgres {
    type Database = Database;

    async fn fresh() -> Self {
        let name = new_name("test");
        admin(&format!("create database {name} {}", template().await)).await;
        Self::open(name).await
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

impl Fixture for Postgres {
    async fn empty() -> Self {
        let name = new_name("test");
        admin(&format!("create database {name}")).await;
        Self::open(name).await
    }

    async fn again(&self) -> Database {
        open(&self.url).await
    }

    async fn client(&self) -> Box<dyn Client> {
        Box::new(AsyncPgConnection::establish(&self.url).await.unwrap())
    }

    async fn clients(&self) -> Vec<(&'static str, Box<dyn Client>)> {
        clients_of(&self.url).await
    }

    fn provided() -> Vec<Provided> {
        vec![
            ("AsyncPgConnection", TypeId::of::<AsyncPgConnection>(), act),
            #[cfg(feature = "postgres-sync")]
            ("PgConnection", TypeId::of::<diesel::PgConnection>(), act_sync),
        ]
    }

    fn table(name: &str) -> String {
        format!("jobs.{name}")
    }

    fn schema_in_a_number() -> &'static str {
        "select hashtextextended(string_agg(what, ' ' order by what), 0) as number from (
             select format('%s.%s', attrelid::regclass, attname) as what from pg_attribute
             union all select format('%s', oid::regprocedure) from pg_proc
             union all select format('%s', nspname) from pg_namespace
             union all select format('%s on %s', tgname, tgrelid::regclass) from pg_trigger
             union all select format('%s on %s', conname, conrelid::regclass) from pg_constraint
         ) everything"
    }

    fn payloads() -> &'static str {
        "select count(*) as number from jobs.payload"
    }

    const VIEW: &'static str = "jobs.job";

    const TABLES: &'static [&'static str] = &[
        "ready",
        "running",
        "finished",
        "payload",
        "job_error",
        "worker",
        "queue",
        "installation",
        "output",
        "held",
        "permit",
        "nudge",
        "rate",
        "fair_turn",
        "admission_failure",
        "expiry",
        "unique_key",
    ];

    const EPOCH: &'static str = "'epoch'";
    const YEAR_AHEAD: &'static str = "now() + interval '1 year'";

    fn passed(time: Duration) -> String {
        let passed = format!("interval '{} seconds'", time.as_secs());
        // Held jobs come below the floors of admission, and no nudge says so.
        format!(
            "update jobs.ready set run_at = run_at - {passed}, enqueued_at = enqueued_at - {passed};
             update jobs.held set run_at = run_at - {passed}, enqueued_at = enqueued_at - {passed};
             delete from jobs.admission_floor;
             update jobs.running set run_at = run_at - {passed}, enqueued_at = enqueued_at - {passed},
                 claimed_at = claimed_at - {passed};
             update jobs.finished set run_at = run_at - {passed}, enqueued_at = enqueued_at - {passed},
                 claimed_at = claimed_at - {passed}, finished_at = finished_at - {passed}, expires_at = expires_at - {passed};
             update jobs.job_error set at = at - {passed};
             update jobs.unique_key set until = until - {passed};
             update jobs.expiry set start_by = start_by - {passed};
             update jobs.rate set full_at = full_at - {passed}, next_at = next_at - {passed}, run_at = '-infinity';
             update jobs.admission_failure set next_at = next_at - {passed};
             update jobs.worker set started_at = started_at - {passed}, heartbeat_at = heartbeat_at - {passed}"
        )
    }

    const HASTE: &'static str =
        "do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$";

    const UNHURRIED: &'static str = "do $do$ declare source constant text := pg_get_functiondef('jobs.admit'::regproc);
        begin
            assert strpos(source, $$:= interval '200 ms';$$) > 0;
            execute replace(source, $$:= interval '200 ms';$$, $$:= interval '1 hour';$$);
        end $do$";

    const ONLY_PAUSES: bool = false;
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the database of this test is kept: {}", self.name);
            return;
        }
        admin_at_the_end(vec![format!("drop database {} with (force)", self.name)]);
    }
}

fn act(act: Act) -> Body {
    let act = Arc::new(act);
    Body::Async(Arc::new(move |conn| {
        let act = act.clone();
        Box::pin(async move {
            let conn = conn.downcast_mut::<AsyncPgConnection>().expect("the connection that was asked for");
            diesel::sql_query("insert into effect (name) values ($1)")
                .bind::<diesel::sql_types::Text, _>(act.effect)
                .execute(conn)
                .await
                .unwrap();
            if let Some(hold) = act.hold() {
                hold.started.send(()).unwrap();
                let _ = hold.go_on.await;
            }
            act.answer()
        })
    }))
}

#[cfg(feature = "postgres-sync")]
fn act_sync(act: Act) -> Body {
    Body::Blocking(Arc::new(move |conn| {
        let conn = conn.downcast_mut::<diesel::PgConnection>().expect("the connection that was asked for");
        let insert =
            diesel::sql_query("insert into effect (name) values ($1)").bind::<diesel::sql_types::Text, _>(act.effect);
        diesel::RunQueryDsl::execute(insert, conn).unwrap();
        if let Some(hold) = act.hold() {
            hold.started.send(()).unwrap();
            let _ = hold.go_on.blocking_recv();
        }
        act.answer()
    }))
}
