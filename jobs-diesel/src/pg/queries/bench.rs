//! The statements of `worker bench` for its schema, and its measurements of the server. Each runs only a few times, so
//! Diesel's DSL and its statement cache have no advantage.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use crate::pg::advisory::BENCH;

/// The comment of the schema that `worker bench` creates. A schema with the same name and without this comment belongs
/// to another user.
pub(crate) const SCHEMA_COMMENT: &str =
    "Made by `worker bench`, which drops it: nothing in here is of any use to anybody else.";

#[derive(QueryableByName)]
struct Locked {
    #[diesel(sql_type = Bool)]
    locked: bool,
}

/// Takes the advisory lock that excludes a second run, until the connection ends. Returns `false` if another session
/// holds it.
pub(crate) async fn lock(conn: &mut AsyncPgConnection) -> QueryResult<bool> {
    let query = diesel::sql_query("select pg_try_advisory_lock($1) as locked").bind::<BigInt, _>(BENCH);
    query.get_result::<Locked>(conn).await.map(|answer| answer.locked)
}

#[derive(QueryableByName)]
struct Comment {
    #[diesel(sql_type = Nullable<Text>)]
    comment: Option<String>,
}

/// Returns the comment of the schema, empty if it has none. `None` if there is no such schema.
pub(crate) async fn comment(conn: &mut AsyncPgConnection) -> QueryResult<Option<String>> {
    let query = diesel::sql_query(
        "select obj_description(oid, 'pg_namespace') as comment from pg_namespace where nspname = 'jobs_bench'",
    );
    let found: Option<Comment> = query.get_result(conn).await.optional()?;
    Ok(found.map(|found| found.comment.unwrap_or_default()))
}

/// The last step that creates the schema: adds the comment [`SCHEMA_COMMENT`], and a table for the measurements.
pub(crate) async fn add_comment(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute(&format!(
        "comment on schema jobs_bench is '{SCHEMA_COMMENT}'; create table jobs_bench.committed (number integer)"
    ))
    .await
}

/// Drops the schema. Fails after ten seconds if another session still holds a lock in it.
pub(crate) async fn drop_schema(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute("set client_min_messages = warning; set lock_timeout = '10s'; drop schema jobs_bench cascade")
        .await
}

/// Empties all tables of the schema except `schema_migration`. It reads their names from the catalog.
pub(crate) async fn empty(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute(
        "do $$ begin execute (
    select 'truncate ' || string_agg(format('%I.%I', schemaname, tablename), ', ')
    from pg_tables where schemaname = 'jobs_bench' and tablename <> 'schema_migration'
); end $$",
    )
    .await
}

/// Runs the cheapest statement, to measure the round trip.
pub(crate) async fn empty_select(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute("select").await
}

/// Inserts one row in its own transaction, which is one commit.
pub(crate) async fn commit(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute("insert into jobs_bench.committed values (1)").await
}

#[derive(QueryableByName)]
pub(crate) struct ServerRow {
    #[diesel(sql_type = Text)]
    pub(crate) version: String,
    #[diesel(sql_type = Array<Text>)]
    pub(crate) settings: Vec<String>,
    #[diesel(sql_type = BigInt)]
    pub(crate) free_connections: i64,
    #[diesel(sql_type = Integer)]
    pub(crate) process: i32,
}

/// Reads the server's version, some settings, the number of free connections and the id of this server process.
pub(crate) async fn server(conn: &mut AsyncPgConnection) -> QueryResult<ServerRow> {
    diesel::sql_query(
        "select current_setting('server_version') as version,
       array(select name || ' ' || current_setting(name)
             from unnest(array['fsync', 'synchronous_commit', 'shared_buffers', 'max_connections']) as name) as settings,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
           - (select sum(numbackends)::bigint from pg_stat_database) as free_connections,
       pg_backend_pid() as process",
    )
    .get_result(conn)
    .await
}

#[derive(QueryableByName)]
pub(crate) struct PrivilegeRow {
    #[diesel(sql_type = Bool)]
    pub(crate) granted: bool,
    #[diesel(sql_type = Text)]
    pub(crate) grant: String,
}

/// Returns whether this role may create schemas, and the statement that grants this privilege.
pub(crate) async fn create_privilege(conn: &mut AsyncPgConnection) -> QueryResult<PrivilegeRow> {
    diesel::sql_query(
        "select has_database_privilege(current_database(), 'create') as granted,
       format('grant create on database %I to %I', current_database(), current_user) as grant",
    )
    .get_result(conn)
    .await
}

#[derive(QueryableByName)]
pub(crate) struct OthersRow {
    #[diesel(sql_type = Double)]
    pub(crate) active: f64,
    #[diesel(sql_type = Array<Text>)]
    pub(crate) programs: Vec<String>,
    #[diesel(sql_type = Double)]
    pub(crate) transactions: f64,
}

/// Returns the active sessions of other clients in all databases of the server, and the number of transactions so far.
/// An ordinary role does not see what other roles do. It does see the number of their transactions.
pub(crate) async fn others(conn: &mut AsyncPgConnection) -> QueryResult<OthersRow> {
    diesel::sql_query(
        "select count(*)::float8 as active,
       array(select distinct a.application_name from pg_stat_activity a
             where a.state = 'active' and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
               and a.application_name <> '') as programs,
       (select sum(xact_commit + xact_rollback)::float8 from pg_stat_database) as transactions
from pg_stat_activity
where state = 'active' and backend_type = 'client backend' and pid <> pg_backend_pid()",
    )
    .get_result(conn)
    .await
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Returns how many connections the load test has open, without this one.
pub(crate) async fn connections(conn: &mut AsyncPgConnection) -> QueryResult<i64> {
    let query = diesel::sql_query(
        "select count(*) as count from pg_stat_activity
where application_name = 'jobs_bench' and datname = current_database() and pid <> pg_backend_pid()",
    );
    query.get_result::<Count>(conn).await.map(|answer| answer.count)
}
