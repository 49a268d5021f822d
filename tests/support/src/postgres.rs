//! Databases on the tests' server. Each is cloned from a template with the schema. There is one template per schema.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::database::APPLICATION;

/// The clauses of `create database` that name the template, which is found or created once per process, and how it is
/// copied.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();

/// How PostgreSQL 15 and later copy a template: half the processor time of the default, which writes each page to the
/// WAL. Earlier versions always copy files.
const COPY_FILES: &str = "strategy file_copy";

/// The URL of the tests' server, for the database `postgres`.
pub fn server() -> String {
    std::env::var("JOBS_TEST_DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "JOBS_TEST_DATABASE_URL is not set: PostgreSQL's tests need a server of their own; run them with `cargo xtask test`"
        )
    })
}

/// The server's URL with another database's name. The tests' role may have the same name as our schema, and PostgreSQL
/// would then find our tables without the schema's name. An application's role does not have that name, so the search
/// path here is only `public`.
pub fn server_url_of(name: &str) -> String {
    let server = server();
    let (before, options) = server.split_once('?').unwrap_or((&server, ""));
    let (authority, _) = before.rsplit_once('/').expect("JOBS_TEST_DATABASE_URL names a database");
    let separator = if options.is_empty() { "" } else { "&" };
    format!("{authority}/{name}?{options}{separator}options=-csearch_path%3Dpublic")
}

/// Creates a database without a schema. Returns its name.
pub(crate) async fn create_empty() -> String {
    let name = new_name();
    admin(&format!("create database {name}")).await;
    name
}

/// Creates a database with the schema of `diesel-jobs` and the application's table. Returns its name.
pub(crate) async fn create() -> String {
    let name = new_name();
    let template = TEMPLATE.get_or_init(template).await;
    admin(&format!("create database {name} {template}")).await;
    name
}

pub(crate) async fn admin(sql: &str) {
    let mut conn = AsyncPgConnection::establish(&server()).await.expect("JOBS_TEST_DATABASE_URL can be reached");
    conn.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn new_name() -> String {
    format!("jobs_test_{}", Uuid::now_v7().simple())
}

/// Finds or creates the template. Returns the clauses that name it. Its name is made from a hash of its content. So
/// later runs find it, and no run finds one with another schema. It is created under another name and then renamed, so
/// no other run sees an incomplete one.
async fn template() -> String {
    let mut hasher = DefaultHasher::new();
    APPLICATION.hash(&mut hasher);
    diesel_jobs::migrations::POSTGRES.iter().for_each(|migration| migration.up.hash(&mut hasher));
    let name = format!("jobs_template_{:016x}", hasher.finish());

    let mut conn = AsyncPgConnection::establish(&server()).await.expect("JOBS_TEST_DATABASE_URL can be reached");
    // The lock is held until this connection is closed. Several test programs may start at the same time.
    conn.batch_execute("select pg_advisory_lock(7465737473)").await.unwrap();
    let there = format!("select count(*) as number from pg_database where datname = '{name}'");
    if crate::connection::pg_number(&mut conn, &there).await == 0 {
        let unfinished = create_empty().await;
        let mut inside = AsyncPgConnection::establish(&server_url_of(&unfinished)).await.unwrap();
        diesel_jobs::migrate(&mut inside).await.unwrap();
        inside.batch_execute(APPLICATION).await.unwrap();
        drop(inside);
        let rename = format!("alter database {unfinished} rename to {name}");
        // The server notices the closed connection only after a moment.
        crate::until("the template's rename", async || conn.batch_execute(&rename).await.ok()).await;
    }
    let version = "select current_setting('server_version_num')::bigint as number";
    let version = crate::connection::pg_number(&mut conn, version).await;
    format!("template {name} {}", if version >= 150_000 { COPY_FILES } else { "" })
}
