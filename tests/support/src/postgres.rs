//! Databases on the tests' server. Each is cloned from a template with the schema in it, made once per schema.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::database::APPLICATION;

/// Found or made once per process.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();

/// The tests' server, its database `postgres`.
pub fn server() -> String {
    std::env::var("JOBS_TEST_DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "JOBS_TEST_DATABASE_URL is not set: PostgreSQL's tests need a server of their own; run them with `cargo xtask test`"
        )
    })
}

/// The server's URL with another database's name. The tests' role may be named as our schema is, and PostgreSQL would then
/// find our tables without their schema's name; an application's role does not, so neither do the tests'.
pub fn server_url_of(name: &str) -> String {
    let server = server();
    let (before, options) = server.split_once('?').unwrap_or((&server, ""));
    let (authority, _) = before.rsplit_once('/').expect("JOBS_TEST_DATABASE_URL names a database");
    let separator = if options.is_empty() { "" } else { "&" };
    format!("{authority}/{name}?{options}{separator}options=-csearch_path%3Dpublic")
}

/// A new database without a schema; answers its name.
pub(crate) async fn create_empty() -> String {
    let name = new_name();
    admin(&format!("create database {name}")).await;
    name
}

/// A new database with the schema of `diesel-jobs` and the application's table.
pub(crate) async fn create() -> String {
    let name = new_name();
    let template = TEMPLATE.get_or_init(template).await;
    admin(&format!("create database {name} template {template}")).await;
    name
}

pub(crate) async fn admin(sql: &str) {
    let mut conn = AsyncPgConnection::establish(&server()).await.expect("JOBS_TEST_DATABASE_URL can be reached");
    conn.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn new_name() -> String {
    format!("jobs_test_{}", Uuid::now_v7().simple())
}

/// Named after what is in it, so that later runs find it, and none finds one of another schema. A name appears only
/// with its contents: the database is made under another one and renamed.
async fn template() -> String {
    let mut hasher = DefaultHasher::new();
    APPLICATION.hash(&mut hasher);
    diesel_jobs::migrations::POSTGRES.iter().for_each(|migration| migration.up.hash(&mut hasher));
    let name = format!("jobs_template_{:016x}", hasher.finish());

    let mut conn = AsyncPgConnection::establish(&server()).await.expect("JOBS_TEST_DATABASE_URL can be reached");
    // Held by this connection until it is closed: several test programs may start together.
    conn.batch_execute("select pg_advisory_lock(7465737473)").await.unwrap();
    let there = format!("select count(*) as number from pg_database where datname = '{name}'");
    if crate::connection::pg_number(&mut conn, &there).await == 0 {
        let unfinished = create_empty().await;
        let mut inside = AsyncPgConnection::establish(&server_url_of(&unfinished)).await.unwrap();
        diesel_jobs::migrate(&mut inside).await.unwrap();
        inside.batch_execute(APPLICATION).await.unwrap();
        drop(inside);
        let rename = format!("alter database {unfinished} rename to {name}");
        // The server needs a moment to see that the connection is closed.
        crate::until("the template's rename", async || conn.batch_execute(&rename).await.ok()).await;
    }
    name
}
