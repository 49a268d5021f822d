//! The databases of tests on a PostgreSQL server. A test has its own copy of a template, or shares a database with
//! other tests. Both are made once for each state of the migrations.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

use super::migrations::UserMigration;
use crate::error::storage_error;
use crate::migrations::POSTGRES;
use crate::pg::connect::Connector;

diesel::define_sql_function! {
    /// Takes an advisory lock until the end of the session.
    fn pg_advisory_lock(key: BigInt);
}

/// Creates a database and returns its URL.
pub(super) async fn create(server: &str, name: &str, all: &[UserMigration]) -> StorageResult<String> {
    let mut admin = connect(server).await?;
    let template = filled(&mut admin, server, "template", all).await?;
    admin.batch_execute(&format!("create database {name} template {template}")).await.map_err(storage_error)?;
    Ok(in_database(server, name))
}

/// Returns the URL of the database that tests with these migrations share. It is made if it is missing.
pub(super) async fn shared(server: &str, all: &[UserMigration]) -> StorageResult<String> {
    let mut admin = connect(server).await?;
    let name = filled(&mut admin, server, "shared", all).await?;
    Ok(in_database(server, &name))
}

pub(super) async fn drop(server: &str, name: &str) -> StorageResult<()> {
    let mut admin = connect(server).await?;
    admin.batch_execute(&format!("drop database if exists {name} with (force)")).await.map_err(storage_error)
}

/// Returns the name of a database with these tables, and creates it if it is missing. Other tests may need it at the
/// same time. So this holds an advisory lock of the session, and the database gets its name when its tables are
/// complete.
async fn filled(
    admin: &mut AsyncPgConnection,
    server: &str,
    what: &str,
    all: &[UserMigration],
) -> StorageResult<String> {
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    POSTGRES.iter().for_each(|migration| migration.up.hash(&mut hasher));
    let hash = hasher.finish();
    let name = format!("jobs_test_{what}_{hash:016x}");
    let exists = diesel::dsl::sql::<Bool>("exists (select from pg_database where datname = ").bind::<Text, _>(&name);
    let exists = diesel::select(exists.sql(")"));
    diesel::select(pg_advisory_lock(hash.cast_signed())).execute(admin).await.map_err(storage_error)?;
    if !exists.get_result::<bool>(admin).await.map_err(storage_error)? {
        let new = format!("{name}_new");
        let create = format!("drop database if exists {new} with (force); create database {new}");
        for statement in create.split(';') {
            admin.batch_execute(statement).await.map_err(storage_error)?;
        }
        let filled = async { fill(&mut connect(&in_database(server, &new)).await?, all).await };
        if let Err(problem) = filled.await {
            admin.batch_execute(&format!("drop database {new} with (force)")).await.map_err(storage_error)?;
            return Err(problem);
        }
        rename(admin, &new, &name).await?;
    }
    admin.batch_execute("select pg_advisory_unlock_all()").await.map_err(storage_error)?;
    Ok(name)
}

/// The connection that filled the database was closed, but its session may need a moment to end.
async fn rename(admin: &mut AsyncPgConnection, new: &str, name: &str) -> StorageResult<()> {
    let end = format!("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{new}'");
    admin.batch_execute(&end).await.map_err(storage_error)?;
    admin.batch_execute(&format!("alter database {new} rename to {name}")).await.map_err(storage_error)
}

async fn fill(conn: &mut AsyncPgConnection, all: &[UserMigration]) -> StorageResult<()> {
    conn.batch_execute(
        "create table if not exists __diesel_schema_migrations (
            version varchar(50) primary key not null, run_on timestamp not null default current_timestamp)",
    )
    .await
    .map_err(storage_error)?;
    for UserMigration { version, directory, up, in_transaction } in all {
        let applied = match in_transaction {
            true => conn.transaction(async |conn| conn.batch_execute(up).await).await,
            false => conn.batch_execute(up).await,
        };
        applied.map_err(|error| StorageError::Refused(format!("migration {directory}: {error}").into()))?;
        let done = "insert into __diesel_schema_migrations (version) values ($1) on conflict do nothing";
        diesel::sql_query(done).bind::<Text, _>(version).execute(conn).await.map_err(storage_error)?;
    }
    crate::migrate(conn).await.map_err(|error| StorageError::Refused(error.to_string().into()))
}

pub(super) async fn connect(url: &str) -> StorageResult<AsyncPgConnection> {
    let connected = Connector::from_url(url)?.connect().await;
    connected.map_err(|error| StorageError::Unavailable(format!("the server of the test database: {error}").into()))
}

/// The same server, another database.
fn in_database(server: &str, name: &str) -> String {
    let (base, query) = server.split_once('?').map_or((server, None), |(base, query)| (base, Some(query)));
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &base[..end])
}

#[cfg(test)]
mod tests {
    use super::in_database;

    #[test]
    fn only_the_name_of_the_database_changes() {
        for (server, expected) in [
            ("postgres://me:x@host:5433/app", "postgres://me:x@host:5433/t"),
            ("postgres://host", "postgres://host/t"),
            ("postgres:///app?host=/run/pg&sslmode=disable", "postgres:///t?host=/run/pg&sslmode=disable"),
        ] {
            assert_eq!(in_database(server, "t"), expected);
        }
    }
}
