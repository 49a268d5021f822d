//! Indexes on tables that have rows. `create index` locks its table against writes until it has read all rows, which
//! takes minutes if there are many; `create index concurrently` does not, but it cannot run in a transaction.
//!
//! A version that adds an index to a table of an earlier version says `create index if not exists`. Such an index is
//! created concurrently before the transaction of the version, whose own statement then finds it. That statement
//! creates the index if the migration is part of a transaction of the application, or of Diesel.
//!
//! Several processes may migrate at once, and no lock keeps them apart meanwhile: a session that waits for an advisory
//! lock has a snapshot, and the end of a concurrent build waits for all snapshots that are older.

use std::time::Duration;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Bool, Text};
use diesel_async::AsyncConnection;

use super::failed;
use crate::error::MigrateError;
use crate::meaning::Meaning;
use crate::migrations::Migration;

/// How long to wait before looking again whether another process has built an index, and how often a line says so.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSES_PER_LINE: usize = 60;
/// Two builds on one table that begin at the same moment wait for each other, and the server ends one of them.
const MOST_DEADLOCKS: usize = 5;

/// A build reads the whole table twice, and waits for the end of all older transactions.
const NO_LIMITS: &str = "select name, setting as value, set_config(name, '0', false) from pg_settings
    where name in ('statement_timeout', 'lock_timeout', 'transaction_timeout') and setting <> '0'";

diesel::define_sql_function! {
    /// Changes a setting of the session, or of the transaction.
    fn set_config(name: Text, value: Text, of_transaction: Bool) -> Text;
}

const STATE: &str = "select case
        when named.id is null then 'later'
        when c.oid is null then 'missing'
        when i.indrelid is distinct from named.id then 'taken'
        when i.indisvalid then 'built'
        when exists (
            select from pg_locks l
            where l.relation = i.indrelid and l.mode = 'ShareUpdateExclusiveLock' and l.granted
              and l.database = (select oid from pg_database where datname = current_database())) then 'in progress'
        else 'invalid'
    end as state
    from (select to_regclass($1)::oid as id) as named
    left join pg_class c on c.relname = $2 and c.relnamespace = to_regnamespace('jobs')
    left join pg_index i on i.indexrelid = c.oid";

/// An index that a version creates if it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index {
    migration: &'static Migration,
    name: &'static str,
    pub(super) table: &'static str,
    /// `create index` or `create unique index`.
    verb: &'static str,
    /// What follows `if not exists`.
    definition: &'static str,
}

/// How often this process has waited for another one that builds an index.
#[derive(Default)]
pub(super) struct Waits(usize);

impl Waits {
    pub(super) fn pause(&mut self, index: &Index) -> Duration {
        if self.0.is_multiple_of(PAUSES_PER_LINE) {
            index.is_built_elsewhere();
        }
        self.0 += 1;
        PAUSE
    }
}

/// What must happen to an index before the transaction of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: it exists, or the version also creates its table.
    Ready,
    /// It must be created.
    Missing,
    /// Another process builds it, or a vacuum hides whether one does.
    InProgress,
    /// Its build was interrupted. It must be dropped before it can be created.
    Invalid,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    state: String,
}

#[derive(QueryableByName)]
struct Limit {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    value: String,
}

/// The indexes that the statements of this version create if they do not exist.
pub(super) fn of(migration: &'static Migration) -> impl Iterator<Item = Index> {
    const VERBS: [&str; 2] = ["create index", "create unique index"];
    let starts = std::iter::once(0).chain(migration.up.match_indices('\n').map(|(at, _)| at + 1));
    starts.filter_map(move |start| {
        let statement = &migration.up[start..];
        let verb = VERBS.into_iter().find(|verb| statement.starts_with(verb))?;
        let rest = statement.strip_prefix(verb)?.strip_prefix(" if not exists ")?;
        let definition = rest.split_once(';').map_or(rest, |(definition, _)| definition);
        let (name, on) = definition.split_once(char::is_whitespace)?;
        let table = on.trim_start().strip_prefix("on ")?.trim_start();
        let table = table.split(|c: char| c.is_whitespace() || c == '(').next()?;
        Some(Index { migration, name, table, verb, definition })
    })
}

impl Index {
    fn state(&self, row: Row) -> Result<State, MigrateError> {
        match row.state.as_str() {
            "later" | "built" => Ok(State::Ready),
            "missing" => Ok(State::Missing),
            "in progress" => Ok(State::InProgress),
            "invalid" => Ok(State::Invalid),
            _ => Err(MigrateError::NameTaken {
                version: self.migration.version,
                name: self.migration.name,
                index: self.name,
            }),
        }
    }

    pub(super) fn create(&self) -> String {
        format!("{} concurrently if not exists {}", self.verb, self.definition)
    }

    fn drop(&self) -> String {
        format!("drop index if exists jobs.{}", self.name)
    }

    fn begins(&self) {
        tracing::info!(
            target: "diesel_jobs", { schema.version = self.migration.version },
            "creating the index {} of {} beside all other work; this takes minutes if the table has millions of rows, and waits for the end of \
             transactions that are open",
            self.name, self.table
        );
    }

    /// What the end of a build means.
    fn ended(&self, result: QueryResult<()>, deadlocks: &mut usize) -> Result<(), MigrateError> {
        match result {
            Ok(()) => {
                tracing::info!(
                    target: "diesel_jobs", { schema.version = self.migration.version },
                    "the index {} of {} is created", self.name, self.table
                );
                Ok(())
            }
            Err(error) if Meaning::of(&error) == Meaning::Conflict && *deadlocks < MOST_DEADLOCKS => {
                *deadlocks += 1;
                tracing::warn!(
                    target: "diesel_jobs", { schema.version = self.migration.version },
                    "the index {} of {} is created again: {error}", self.name, self.table
                );
                Ok(())
            }
            Err(error) => Err(failed(self.migration, error)),
        }
    }

    fn is_built_elsewhere(&self) {
        tracing::info!(
            target: "diesel_jobs", { schema.version = self.migration.version },
            "another process creates the index {} of {}; this one waits until it has ended", self.name, self.table
        );
    }
}

/// Looks what must happen to this index.
pub(super) async fn look<C: AsyncConnection<Backend = Pg>>(conn: &mut C, index: &Index) -> Result<State, MigrateError> {
    use diesel_async::RunQueryDsl;
    let query = sql_query(STATE).bind::<Text, _>(index.table).bind::<Text, _>(index.name);
    index.state(RunQueryDsl::get_result(query, conn).await?)
}

/// Drops an index that is invalid, in the current transaction.
pub(super) async fn drop<C: AsyncConnection<Backend = Pg>>(conn: &mut C, index: &Index) -> Result<(), MigrateError> {
    conn.batch_execute(&index.drop()).await.map_err(|source| failed(index.migration, source))
}

/// Creates the index outside of a transaction. If another process got in the way, the index may be invalid afterwards.
pub(super) async fn create<C: AsyncConnection<Backend = Pg>>(
    conn: &mut C,
    index: &Index,
    deadlocks: &mut usize,
) -> Result<(), MigrateError> {
    use diesel_async::RunQueryDsl;
    let limits: Vec<Limit> = RunQueryDsl::load(sql_query(NO_LIMITS), conn).await?;
    index.begins();
    let created = conn.batch_execute(&index.create()).await;
    let ended = index.ended(created, deadlocks);
    for limit in limits {
        let restored = RunQueryDsl::execute(diesel::select(set_config(limit.name, limit.value, false)), conn).await;
        if ended.is_ok() {
            restored?;
        }
    }
    ended
}

/// The same on a sync connection.
pub(super) fn look_sync<C>(conn: &mut C, index: &Index) -> Result<State, MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    let query = sql_query(STATE).bind::<Text, _>(index.table).bind::<Text, _>(index.name);
    index.state(query.get_result(conn)?)
}

/// The same on a sync connection.
pub(super) fn drop_sync<C>(conn: &mut C, index: &Index) -> Result<(), MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    conn.batch_execute(&index.drop()).map_err(|source| failed(index.migration, source))
}

/// The same on a sync connection.
pub(super) fn create_sync<C>(conn: &mut C, index: &Index, deadlocks: &mut usize) -> Result<(), MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    let limits: Vec<Limit> = sql_query(NO_LIMITS).load(conn)?;
    index.begins();
    let created = conn.batch_execute(&index.create());
    let ended = index.ended(created, deadlocks);
    for limit in limits {
        let restored = diesel::select(set_config(limit.name, limit.value, false)).execute(conn);
        if ended.is_ok() {
            restored?;
        }
    }
    ended
}
