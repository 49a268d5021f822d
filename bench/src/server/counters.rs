//! What the server counts while a measure runs.

use anyhow::Result;
use tokio_postgres::Client;

/// Write-ahead log, transactions and dead rows so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) wal_bytes: f64,
    pub(crate) transactions: f64,
    pub(crate) dead_rows: f64,
}

impl Counters {
    /// Reads them. Backends hand in their counts with a delay of up to a second, so read a second after the load.
    pub(crate) async fn read(client: &Client, database: &str) -> Result<Self> {
        let row = client
            .query_one(
                "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
                        (select xact_commit + xact_rollback from pg_stat_database where datname = $1)::float8",
                &[&database],
            )
            .await?;
        Ok(Self { wal_bytes: row.get(0), transactions: row.get(1), dead_rows: 0.0 })
    }

    /// The same, and the dead rows of the tables that jobs move through; `client` is connected to the database itself.
    pub(crate) async fn read_within(client: &Client, database: &str) -> Result<Self> {
        let row = client
            .query_one(
                "select coalesce(sum(n_dead_tup), 0)::float8 from pg_stat_user_tables where schemaname = 'jobs'",
                &[],
            )
            .await?;
        Ok(Self { dead_rows: row.get(0), ..Self::read(client, database).await? })
    }
}
