//! The server's counters during a measure.

use anyhow::Result;

use super::Database;

/// The totals of one database. The write-ahead log is that of the whole server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) wal_bytes: f64,
    pub(crate) commits: f64,
    /// Dead rows in the tables of the schema `jobs`.
    pub(crate) dead_rows: f64,
}

impl Counters {
    /// Reads the counters. PostgreSQL's backends report with a delay, so call it a second after the load.
    pub(crate) async fn read(database: &Database<'_>) -> Result<Self> {
        let row = database
            .client
            .query_one(
                "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
                        (select xact_commit from pg_stat_database where datname = current_database())::float8,
                        (select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'jobs')::float8",
                &[],
            )
            .await?;
        Ok(Self { wal_bytes: row.get(0), commits: row.get(1), dead_rows: row.get(2) })
    }
}
