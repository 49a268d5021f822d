//! Applies the schema to PostgreSQL, on async and sync connections. Each version is applied in its own transaction,
//! which holds an advisory lock, so that deploys that start together do not collide.

mod indexes;
mod locks;
mod up;

use async_trait::async_trait;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::{AsyncConnection, AsyncPgConnection};
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::{Finding, StorageResult};
use futures_util::future::BoxFuture;

use super::PgStorage;
use super::schema::schema_migration;
use crate::error::{MigrateError, storage_error};
use crate::ledger::{self, Applied, newest_applied};
use crate::migrations::{LiveJobs, Migration, Migrator, POSTGRES};
pub use up::up;
pub(crate) use up::up_sync;

diesel::define_sql_function! {
    /// Takes PostgreSQL's advisory lock until the end of the transaction.
    fn pg_advisory_xact_lock(key: BigInt);
}

diesel::define_sql_function! {
    /// The same if no other session has it. Returns whether it was taken.
    fn pg_try_advisory_xact_lock(key: BigInt) -> Bool;
}

#[derive(QueryableByName)]
struct Exists {
    #[diesel(sql_type = Bool)]
    exists: bool,
}

const LEDGER_EXISTS: &str = "select to_regclass('jobs.schema_migration') is not null as exists";

/// What each `down.sql` requires before it deletes waiting or running jobs.
const ALLOW_DROP: &str = "set local jobs.allow_drop = 'on'";

/// The oldest supported server, as `server_version_num` reports it. The statements are written for it and tested on it.
const OLDEST_SERVER: i32 = 140_000;

diesel::define_sql_function! {
    #[sql_name = "current_setting"]
    fn setting(name: Text) -> Text;
}

/// The only encoding in which every text can be stored.
const UTF8: &str = "UTF8";

/// Refuses a server that is too old, and a database that cannot store every text, with a message of one line.
pub(crate) async fn check_server(conn: &mut AsyncPgConnection) -> QueryResult<StorageResult<()>> {
    let settings = (setting("server_version_num"), setting("server_version"), setting("server_encoding"));
    let (number, version, encoding): (String, String, String) =
        diesel_async::RunQueryDsl::get_result(diesel::select(settings), conn).await?;
    Ok(check_version(&number, &version).and_then(|()| check_encoding(encoding).map_err(StorageError::from)))
}

fn check_encoding(encoding: String) -> Result<(), MigrateError> {
    if encoding == UTF8 { Ok(()) } else { Err(MigrateError::Encoding(encoding)) }
}

/// The tables in which this role sees no row, because row level security is on: no policy lets the role read a row, or
/// one that restricts the others lets it read none. A policy that is always false is written so.
const HIDDEN: &str = "select 'jobs.' || c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join lateral (
        select bool_or(not is_false) filter (where polpermissive) as shows, bool_or(is_false) filter (where not polpermissive) as hides
        from pg_policy p cross join lateral (select pg_get_expr(p.polqual, p.polrelid) is not distinct from 'false' as is_false) as condition
        where p.polrelid = c.oid and p.polcmd in ('*', 'r')
          and exists (select from unnest(p.polroles) as polrole where polrole = 0 or pg_has_role(polrole, 'usage'))
    ) as policies
    where n.nspname = 'jobs' and c.relkind in ('r', 'p') and row_security_active(c.oid)
      and (shows is not true or hides is true)
    order by name";

#[derive(QueryableByName)]
struct Hidden {
    #[diesel(sql_type = Text)]
    name: String,
}

/// Refuses a role that would find no jobs and get no error.
pub(crate) async fn check_rows(conn: &mut AsyncPgConnection) -> QueryResult<StorageResult<()>> {
    let hidden: Vec<Hidden> = diesel_async::RunQueryDsl::load(diesel::sql_query(HIDDEN), conn).await?;
    if hidden.is_empty() {
        return Ok(Ok(()));
    }
    let names: Vec<String> = hidden.into_iter().map(|table| table.name).collect();
    Ok(Err(StorageError::Config(format!(
        "row level security hides all rows of {} from this role: connect as the owner of the tables or as a role with BYPASSRLS, \
         or run `alter table .. disable row level security` for each",
        names.join(", ")
    ))))
}

fn check_version(number: &str, version: &str) -> StorageResult<()> {
    match number.parse::<i32>() {
        Ok(number) if number < OLDEST_SERVER => Err(StorageError::Config(format!(
            "this server is PostgreSQL {version}, and `diesel-jobs` needs PostgreSQL 14 or newer: upgrade the server"
        ))),
        _ => Ok(()),
    }
}

/// Where the schema is created.
const PLACE: &str = "select to_regnamespace('jobs') is not null as is_taken, \
    to_regclass('jobs.schema_migration') is not null as is_emptied, \
    has_database_privilege(current_database(), 'create') as may_create, \
    quote_ident(current_user) as role, quote_ident(current_database()) as database";

#[derive(QueryableByName)]
struct Place {
    #[diesel(sql_type = Bool)]
    is_taken: bool,
    /// It is ours, and its ledger has no row.
    #[diesel(sql_type = Bool)]
    is_emptied: bool,
    #[diesel(sql_type = Bool)]
    may_create: bool,
    #[diesel(sql_type = Text)]
    role: String,
    #[diesel(sql_type = Text)]
    database: String,
}

impl Place {
    /// Says what to do if the first version cannot create its schema.
    fn check(self) -> Result<(), MigrateError> {
        match self {
            Self { is_emptied: true, .. } => {
                Err(MigrateError::Emptied { ledger: "jobs.schema_migration", anew: "run `drop schema jobs cascade`" })
            }
            Self { is_taken: true, .. } => Err(MigrateError::SchemaTaken),
            Self { may_create: false, role, database, .. } => Err(MigrateError::MayNotCreate { role, database }),
            _ => Ok(()),
        }
    }
}

fn failed(migration: &'static Migration, error: diesel::result::Error) -> MigrateError {
    MigrateError::Failed { version: migration.version, name: migration.name, error }
}

/// The applied migrations, ascending. Empty if there is no ledger.
pub(crate) async fn applied<C: AsyncConnection<Backend = Pg>>(conn: &mut C) -> QueryResult<Vec<Applied>> {
    use diesel_async::RunQueryDsl;
    let ledger: Exists = RunQueryDsl::get_result(diesel::sql_query(LEDGER_EXISTS), conn).await?;
    if !ledger.exists {
        return Ok(Vec::new());
    }
    RunQueryDsl::load(schema_migration::table.order(schema_migration::version), conn).await
}

/// The same on a sync connection.
fn applied_sync<C>(conn: &mut C) -> QueryResult<Vec<Applied>>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    let ledger: Exists = diesel::sql_query(LEDGER_EXISTS).get_result(conn)?;
    match ledger.exists {
        true => schema_migration::table.order(schema_migration::version).load(conn),
        false => Ok(Vec::new()),
    }
}

fn down<C: AsyncConnection<Backend = Pg>>(
    conn: &mut C,
    live: LiveJobs,
) -> BoxFuture<'_, Result<Option<i32>, MigrateError>> {
    Box::pin(async move {
        conn.transaction(async |conn| {
            locks::begin(conn, false).await?;
            let Some(migration) = newest_applied(POSTGRES, &applied(conn).await?)? else { return Ok(None) };
            if live == LiveJobs::Delete {
                conn.batch_execute(ALLOW_DROP).await?;
            }
            locks::lock_tables(conn, migration).await?;
            conn.batch_execute(migration.down).await.map_err(|source| failed(migration, source))?;
            Ok(Some(migration.version))
        })
        .await
    })
}

/// Returns an error of one line that says what to do, unless this program can serve the schema.
pub(crate) fn check(rows: &[Applied]) -> StorageResult<()> {
    ledger::check(POSTGRES, rows)
}

/// What the doctor says if this program cannot serve the schema.
pub(crate) fn finding(rows: &[Applied]) -> Option<Finding> {
    ledger::finding(POSTGRES, rows)
}

#[async_trait]
impl Migrator for PgStorage {
    fn known(&self) -> &'static [Migration] {
        POSTGRES
    }

    async fn applied(&self) -> StorageResult<Vec<i32>> {
        let mut conn = self.connection().await?;
        let ledger = applied(&mut *conn).await.map_err(storage_error)?;
        Ok(ledger.iter().map(|applied| applied.version).collect())
    }

    async fn up(&self) -> StorageResult<Vec<&'static Migration>> {
        let mut conn = self.connection().await?;
        check_server(&mut conn).await.map_err(storage_error)??;
        let versions = up::<AsyncPgConnection>(&mut conn, POSTGRES, false).await?;
        Ok(POSTGRES.iter().filter(|migration| versions.contains(&migration.version)).collect())
    }

    async fn down(&self, live: LiveJobs) -> StorageResult<Option<&'static Migration>> {
        let mut conn = self.connection().await?;
        let version = down::<AsyncPgConnection>(&mut conn, live).await?;
        Ok(POSTGRES.iter().find(|migration| Some(migration.version) == version))
    }
}

#[cfg(test)]
mod tests {
    use super::check_version;

    #[test]
    fn servers_before_14_are_refused() {
        let refused = check_version("130014", "13.14 (Debian)").unwrap_err().to_string();
        assert!(refused.contains("PostgreSQL 13.14") && refused.contains("14 or newer"), "{refused}");
        assert!(check_version("140000", "14.0").is_ok() && check_version("180001", "18.1").is_ok());
    }
}
