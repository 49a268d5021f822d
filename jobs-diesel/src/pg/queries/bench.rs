//! `worker bench`: the schema it works in, and the server's vital signs. Run a few times each, so
//! nothing is gained by Diesel's DSL and its cache.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use crate::pg::advisory::BENCH;

/// Says whose schema it is. A schema without it is somebody else's, whatever its name.
pub(crate) const MARK: &str = "Made by `worker bench`, which drops it: nothing in here is of any use to anybody else.";

#[derive(QueryableByName)]
struct Locked {
    #[diesel(sql_type = Bool)]
    locked: bool,
}

/// Takes the lock that keeps a second run out, until the connection ends.
pub(crate) async fn lock(conn: &mut AsyncPgConnection) -> QueryResult<bool> {
    let query = diesel::sql_query("select pg_try_advisory_lock($1) as locked").bind::<BigInt, _>(BENCH);
    query.get_result::<Locked>(conn).await.map(|answer| answer.locked)
}

#[derive(QueryableByName)]
struct Comment {
    #[diesel(sql_type = Nullable<Text>)]
    comment: Option<String>,
}

/// The comment of the schema; `None` if there is no such schema.
pub(crate) async fn comment(conn: &mut AsyncPgConnection) -> QueryResult<Option<String>> {
    let query = diesel::sql_query(
        "select obj_description(oid, 'pg_namespace') as comment from pg_namespace where nspname = 'jobs_bench'",
    );
    let found: Option<Comment> = query.get_result(conn).await.optional()?;
    Ok(found.map(|found| found.comment.unwrap_or_default()))
}

/// Ends the making of the schema: says whose it is, and adds what only the measurements need.
pub(crate) async fn mark(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute(&format!(
        "comment on schema jobs_bench is '{MARK}'; create table jobs_bench.committed (number integer)"
    ))
    .await
}

/// Drops the schema, or says within ten seconds who else holds something in it.
pub(crate) async fn drop_schema(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute("set client_min_messages = warning; set lock_timeout = '10s'; drop schema jobs_bench cascade")
        .await
}

/// Empties all tables but the ledger, whatever tables this version has.
pub(crate) async fn empty(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute(
        "do $$ begin execute (
    select 'truncate ' || string_agg(format('%I.%I', schemaname, tablename), ', ')
    from pg_tables where schemaname = 'jobs_bench' and tablename <> 'schema_migration'
); end $$",
    )
    .await
}

/// As cheap as an answer can be.
pub(crate) async fn nothing(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute("select").await
}

/// A commit of one row.
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

/// What the server says of itself.
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
pub(crate) struct RightRow {
    #[diesel(sql_type = Bool)]
    pub(crate) given: bool,
    #[diesel(sql_type = Text)]
    pub(crate) grant: String,
}

/// Whether this role may make schemas, and what would let it.
pub(crate) async fn right(conn: &mut AsyncPgConnection) -> QueryResult<RightRow> {
    diesel::sql_query(
        "select has_database_privilege(current_database(), 'create') as given,
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

/// Sessions of others at work, in all databases of the server, and the transactions so far. What other roles do is
/// hidden from an ordinary one; the number of their transactions is not.
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

/// How many connections the load test has open, this one left out.
pub(crate) async fn connections(conn: &mut AsyncPgConnection) -> QueryResult<i64> {
    let query = diesel::sql_query(
        "select count(*) as count from pg_stat_activity
where application_name = 'jobs_bench' and datname = current_database() and pid <> pg_backend_pid()",
    );
    query.get_result::<Count>(conn).await.map(|answer| answer.count)
}
