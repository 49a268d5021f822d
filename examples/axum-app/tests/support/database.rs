//! A database for one test. It is dropped with this value, and kept if the test panics.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use super::Process;

/// One database.
pub(crate) struct Db {
    name: String,
    pub(crate) url: String,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

impl Db {
    /// Creates an empty database.
    pub(crate) async fn empty() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let name = format!("shop_test_{}_{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        // A run that failed may have left a database with this name.
        on_server(&format!("drop database if exists {name} with (force)")).await;
        on_server(&format!("create database {name}")).await;
        // PostgreSQL searches a schema with the role's name first, and the role may be named `jobs`.
        on_server(&format!("alter database {name} set search_path to public")).await;
        Self { url: url_of(&name), name }
    }

    /// Creates a database with the shop's and the jobs' tables, by the shop's migrations.
    pub(crate) async fn migrated() -> Self {
        let db = Self::empty().await;
        Process::start(env!("CARGO_BIN_EXE_migrate"), &db.url, &[], &[]).succeeded().await;
        db
    }

    pub(crate) async fn conn(&self) -> AsyncPgConnection {
        AsyncPgConnection::establish(&self.url).await.unwrap()
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.conn().await.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// See [`number`].
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        number(&mut self.conn().await, sql).await
    }
}

/// Returns the result of a query of one number.
pub(crate) async fn number(conn: &mut AsyncPgConnection, sql: &str) -> i64 {
    let query = diesel::sql_query(format!("select ({sql})::bigint as number"));
    let row: Number = query.get_result(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    row.number
}

impl Drop for Db {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the database of this test is kept: {}", self.name);
            return;
        }
        let sql = format!("drop database {} with (force)", self.name);
        // This uses a thread of its own, because this thread may be inside a runtime, which must not be blocked.
        let done = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(on_server(&sql));
        });
        if done.join().is_err() {
            let _ = writeln!(std::io::stderr(), "the database {} could not be dropped", self.name);
        }
    }
}

async fn on_server(sql: &str) {
    let mut conn = AsyncPgConnection::establish(&server()).await.unwrap();
    conn.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn server() -> String {
    std::env::var("JOBS_TEST_DATABASE_URL")
        .expect("JOBS_TEST_DATABASE_URL is not set: these tests need a PostgreSQL server; run `cargo xtask test`")
}

/// The server's URL with another database's name.
fn url_of(name: &str) -> String {
    let server = server();
    let (address, options) = server.split_once('?').map_or((&*server, None), |(url, options)| (url, Some(options)));
    let (host, _) = address.rsplit_once('/').expect("JOBS_TEST_DATABASE_URL names a database");
    options.map_or_else(|| format!("{host}/{name}"), |options| format!("{host}/{name}?{options}"))
}
