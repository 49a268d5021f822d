//! The contents of the application's tables on SQLite: all tables except ours. A rollback also resets the numbers of
//! rows. So only columns whose default is a time or a random value are left out.

use async_trait::async_trait;
use diesel::connection::{AnsiTransactionManager, TransactionManager as _};
use diesel::prelude::*;
use diesel::sql_types::{Nullable, Text};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

use super::connection::{CrashConnection, set};
use super::contents::Contents;
use super::point::CrashPoint;

const TABLES: &str = r"
select name as text from sqlite_master
where type = 'table' and name not like 'sqlite\_%' escape '\' and name not in (
    'jobs_installation', 'jobs_job', 'jobs_job_error', 'jobs_migrating', 'jobs_output', 'jobs_queue', 'jobs_schedule',
    'jobs_schema_migration', 'jobs_worker')
order by name";

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    text: String,
}

#[derive(QueryableByName)]
struct Column {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Nullable<Text>)]
    dflt_value: Option<String>,
}

impl Column {
    fn varies(&self) -> bool {
        let default = self.dflt_value.as_deref().unwrap_or_default().to_lowercase();
        ["current_", "now", "random"].iter().any(|part| default.contains(part))
    }
}

fn contents(conn: &mut SqliteConnection) -> QueryResult<Contents> {
    let mut contents = Contents::default();
    for Row { text: table } in diesel::sql_query(TABLES).load::<Row>(conn)? {
        let columns = "select name, dflt_value from pragma_table_info(?)";
        let columns: Vec<Column> = diesel::sql_query(columns).bind::<Text, _>(&table).load(conn)?;
        let compared = columns.iter().filter(|column| !column.varies());
        let parts = compared.map(|Column { name, .. }| {
            format!("'{}: ' || quote(\"{}\")", name.replace('\'', "''"), name.replace('"', "\"\""))
        });
        let parts = parts.collect::<Vec<_>>().join(" || ', ' || ");
        let parts = if parts.is_empty() { "''".to_owned() } else { parts };
        let rows = format!("select {parts} as text from \"{}\"", table.replace('"', "\"\""));
        let rows = diesel::sql_query(rows).load::<Row>(conn)?;
        contents.add(table, rows.into_iter().map(|row| row.text).collect());
    }
    Ok(contents)
}

#[async_trait]
impl CrashConnection for SqliteConnection {
    async fn begin(&mut self) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction(self)
    }

    async fn roll_back(&mut self) -> QueryResult<()> {
        AnsiTransactionManager::rollback_transaction(self)
    }

    async fn instrument(&mut self, point: Option<&CrashPoint>) {
        set!(self, point);
    }

    async fn contents(&mut self) -> QueryResult<Contents> {
        contents(self)
    }
}

#[async_trait]
impl CrashConnection for SyncConnectionWrapper<SqliteConnection> {
    async fn begin(&mut self) -> QueryResult<()> {
        self.spawn_blocking(AnsiTransactionManager::begin_transaction).await
    }

    async fn roll_back(&mut self) -> QueryResult<()> {
        self.spawn_blocking(AnsiTransactionManager::rollback_transaction).await
    }

    async fn instrument(&mut self, point: Option<&CrashPoint>) {
        let point = point.cloned();
        let set = move |conn: &mut SqliteConnection| {
            set!(conn, point);
            Ok(())
        };
        // Only a runtime that ends refuses it.
        let _: QueryResult<()> = self.spawn_blocking(set).await;
    }

    async fn contents(&mut self) -> QueryResult<Contents> {
        self.spawn_blocking(contents).await
    }
}
