//! What the server counts while a measure runs.

use anyhow::Result;

use super::Database;

/// So far, in one database; the write-ahead log is the whole server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) wal_bytes: f64,
    pub(crate) commits: f64,
    /// Dead rows in the tables that jobs move through.
    pub(crate) dead_rows: f64,
}

impl Counters {
    /// Reads them. Backends hand in their counts with a delay: read a second after the load.
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
