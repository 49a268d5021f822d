//! The locks of a migration that changes the tables of a database in use.
//!
//! A version that changes a table must have its lock. The lock waits for every open transaction that has used the
//! table, and all statements that come later wait behind it. So a migration first takes the locks of all our tables
//! and views, and does not wait for them for longer than a moment. If it does not get them, it lets the others pass,
//! and tries again after a pause. With the locks, its statements wait for nobody, and may take their time.
//!
//! A migration inside a transaction of the application has the application's time limits, and waits as they say: during
//! a pause, that transaction would keep the locks that it has already.

use std::time::Duration;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Bool, Text};
use diesel_async::AsyncConnection;

use super::super::advisory;
use super::{check_encoding, failed, pg_advisory_xact_lock, pg_try_advisory_xact_lock, setting};
use crate::error::MigrateError;
use crate::migrations::Migration;

/// Pauses between two attempts, and so many of them: ten minutes.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
const MOST_PAUSES: usize = 77;

/// A snapshot from before the wait for another migration would not show what that one has applied.
const READ_COMMITTED: &str = "set transaction isolation level read committed";
/// Waiting for another migration, pauses, and the statements of a version may take their time.
const NO_LIMITS: &str = "select set_config(name, '0', true) from pg_settings
    where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')";
/// How long all locks together may be waited for, and so how long an enqueue may wait behind this: 800 ms by default.
/// It is shorter than the time after which the server looks for a deadlock. So a transaction that has locked the tables
/// in another order waits, and the server does not abort it.
const BRIEFLY: &str = "select set_config('statement_timeout', least(800, ceil(0.8 * setting::numeric))::text, true)
    from pg_settings where name = 'deadlock_timeout'";
/// The server cancels an autovacuum that is in the way only when it looks for a deadlock. On a server that does so
/// after more than 2 s, the migration waits for the end of the autovacuum, so that no enqueue waits behind it for
/// longer.
const UNTIL_VACUUM_ENDS: &str =
    "select set_config('statement_timeout', least(2000, ceil(1.5 * setting::numeric))::text, true)
    from pg_settings where name = 'deadlock_timeout'";
/// A failure inside frees the locks that were taken, and the transaction goes on. A cancellation that comes before the
/// time limit is from an operator.
const LOCK_ALL: &str = "do $$
declare
    ours text;
begin
    select string_agg(format('%I.%I', n.nspname, c.relname), ', ' order by c.oid) into ours
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'jobs' and c.relkind in ('r', 'p', 'v') and pg_has_role(c.relowner, 'usage');
    if ours is not null then
        execute 'lock table ' || ours || ' in access exclusive mode';
    end if;
    perform set_config('jobs.locked', 'on', true);
exception when query_canceled or deadlock_detected then
    if sqlstate = '57014' and clock_timestamp() - statement_timestamp() < current_setting('statement_timeout')::interval then
        raise;
    end if;
    perform set_config('jobs.locked', 'off', true);
end $$";
/// Who has used our tables in a transaction that is still open, the oldest first.
const HOLDERS: &str = "with holders as (
    select distinct a.xact_start as since, a.pid is not null and a.usesysid is null as is_vacuum,
           case when l.pid is null then format('the prepared transaction %L', p.gid)
                else format('process %s (%s)%s', l.pid,
                            coalesce(nullif(a.application_name, ''), a.usename, case when a.usesysid is null then 'autovacuum' end, 'unnamed'),
                            ' since ' || to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'))
           end as who
    from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
    left join pg_stat_activity a on a.pid = l.pid
    left join pg_prepared_xacts p on l.virtualtransaction = '-1/' || p.transaction::text
    where n.nspname = 'jobs' and l.granted and l.pid is distinct from pg_backend_pid() and current_setting('jobs.locked') <> 'on'
      and l.database = (select oid from pg_database where datname = current_database())
)
select current_setting('jobs.locked') = 'on' as locked,
       coalesce((select string_agg(who, ', ' order by since) from (select * from holders order by since limit 3) as oldest),
                'transactions that have ended meanwhile') as oldest,
       exists (select from holders where is_vacuum) as has_vacuum";

/// What an attempt to take the locks has come to.
#[derive(QueryableByName)]
pub(super) struct Holders {
    #[diesel(sql_type = Bool)]
    pub(super) locked: bool,
    #[diesel(sql_type = Text)]
    pub(super) oldest: String,
    #[diesel(sql_type = Bool)]
    pub(super) has_vacuum: bool,
}

/// The attempts to take the locks for a version.
pub(super) struct Attempts {
    migration: &'static Migration,
    failed: usize,
    limit: &'static str,
}

impl Attempts {
    pub(super) fn new(migration: &'static Migration) -> Self {
        Self { migration, failed: 0, limit: BRIEFLY }
    }

    /// The pause before the next attempt. `None`: the tables are locked.
    pub(super) fn pause_after(&mut self, holders: Holders) -> Result<Option<Duration>, MigrateError> {
        let Holders { locked, oldest, has_vacuum } = holders;
        if locked {
            return Ok(None);
        }
        let Migration { version, name, .. } = *self.migration;
        if self.failed >= MOST_PAUSES {
            return Err(MigrateError::Busy { version, name, users: oldest });
        }
        let pause = PAUSES[self.failed.min(PAUSES.len() - 1)];
        self.failed += 1;
        self.limit = if has_vacuum { UNTIL_VACUUM_ENDS } else { BRIEFLY };
        tracing::warn!(
            target: "diesel_jobs", { schema.version = version },
            "migration {version:04}_{name} waits for the end of transactions that use the tables of `diesel-jobs`: {oldest}; the next attempt \
             is in {pause:?}"
        );
        Ok(Some(pause))
    }
}

fn another_migrates() {
    tracing::warn!(target: "diesel_jobs", "another process migrates this database; this one waits until it has ended");
}

/// Begins a transaction of a migration: waits until no other one runs. `theirs`: it is part of the application's
/// transaction.
pub(super) async fn begin<C: AsyncConnection<Backend = Pg>>(conn: &mut C, theirs: bool) -> Result<(), MigrateError> {
    use diesel_async::RunQueryDsl;
    if !theirs {
        conn.batch_execute(READ_COMMITTED).await?;
        RunQueryDsl::execute(sql_query(NO_LIMITS), conn).await?;
    }
    if !RunQueryDsl::get_result(diesel::select(pg_try_advisory_xact_lock(advisory::MIGRATE)), conn).await? {
        another_migrates();
        RunQueryDsl::execute(diesel::select(pg_advisory_xact_lock(advisory::MIGRATE)), conn).await?;
    }
    check_encoding(RunQueryDsl::get_result(diesel::select(setting("server_encoding")), conn).await?)
}

/// Takes the locks of all tables for this version.
pub(super) async fn lock_tables<C: AsyncConnection<Backend = Pg>>(
    conn: &mut C,
    migration: &'static Migration,
) -> Result<(), MigrateError> {
    use diesel_async::RunQueryDsl;
    let mut attempts = Attempts::new(migration);
    loop {
        RunQueryDsl::execute(sql_query(attempts.limit), conn).await?;
        conn.batch_execute(LOCK_ALL).await.map_err(|source| failed(migration, source))?;
        RunQueryDsl::execute(sql_query(NO_LIMITS), conn).await?;
        let holders = RunQueryDsl::get_result(sql_query(HOLDERS), conn).await?;
        match attempts.pause_after(holders)? {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Ok(()),
        }
    }
}

/// The same on a sync connection.
pub(super) fn begin_sync<C>(conn: &mut C, theirs: bool) -> Result<(), MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    if !theirs {
        conn.batch_execute(READ_COMMITTED)?;
        sql_query(NO_LIMITS).execute(conn)?;
    }
    if !diesel::select(pg_try_advisory_xact_lock(advisory::MIGRATE)).get_result(conn)? {
        another_migrates();
        diesel::select(pg_advisory_xact_lock(advisory::MIGRATE)).execute(conn)?;
    }
    check_encoding(diesel::select(setting("server_encoding")).get_result(conn)?)
}

/// The same on a sync connection.
pub(super) fn lock_tables_sync<C>(conn: &mut C, migration: &'static Migration) -> Result<(), MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    let mut attempts = Attempts::new(migration);
    loop {
        sql_query(attempts.limit).execute(conn)?;
        conn.batch_execute(LOCK_ALL).map_err(|source| failed(migration, source))?;
        sql_query(NO_LIMITS).execute(conn)?;
        match attempts.pause_after(sql_query(HOLDERS).get_result(conn)?)? {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use diesel_async::{RunQueryDsl, SimpleAsyncConnection as _};

    use super::*;
    use crate::pg::tests::database;

    #[tokio::test]
    async fn an_enqueue_waits_briefly_whatever_the_server_is_set_to() {
        let (mut admin, name, storage) = database().await;
        let mut conn = storage.connection().await.unwrap();
        for (deadlock_timeout, briefly, until_vacuum_ends) in
            [("1s", "800ms", "1500ms"), ("5s", "800ms", "2s"), ("100ms", "80ms", "150ms")]
        {
            conn.batch_execute(&format!("begin; set local deadlock_timeout = '{deadlock_timeout}'")).await.unwrap();
            for (limit, expected) in [(BRIEFLY, briefly), (UNTIL_VACUUM_ENDS, until_vacuum_ends)] {
                RunQueryDsl::execute(sql_query(limit), &mut *conn).await.unwrap();
                let limit: String =
                    RunQueryDsl::get_result(diesel::select(setting("statement_timeout")), &mut *conn).await.unwrap();
                assert_eq!(limit, expected, "deadlock_timeout = {deadlock_timeout}");
            }
            conn.batch_execute("rollback").await.unwrap();
        }
        drop((conn, storage));
        admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
    }
}
