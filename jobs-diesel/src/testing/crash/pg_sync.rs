//! `CrashConnection` for Diesel's own connections to PostgreSQL.

use async_trait::async_trait;
use diesel::connection::{AnsiTransactionManager, TransactionManager as _};
use diesel::prelude::*;

use super::connection::{CrashConnection, set};
use super::contents::Contents;
use super::pg::{Row, TABLES, Table};
use super::point::CrashPoint;

#[async_trait]
impl CrashConnection for PgConnection {
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
        let mut contents = Contents::default();
        for table in diesel::sql_query(TABLES).load::<Table>(self)? {
            let rows: Vec<Row> = diesel::sql_query(table.rows).load(self)?;
            contents.add(table.name, rows.into_iter().map(|row| row.text).collect());
        }
        Ok(contents)
    }
}
