//! SQLite, the embedded default: one file in WAL mode, used by one process or by a few processes on one machine.
//!
//! - **One writer.** SQLite lets one transaction write at a time, across all processes. This process writes through one
//!   connection, which its users check out one after the other (`shared_connection.rs`). Between processes, `begin
//!   immediate` and a busy timeout order the writers. More connections would only wait, so the requested number of
//!   handlers has no effect.
//! - **Transactional handlers hold this connection and the write lock** from their first line to their last. Meanwhile
//!   no process can enqueue, claim or finish any other job. Keep them short, well below the lease time, because
//!   heartbeats wait for them, too. A rescuer lets waiting heartbeats through first. But if a lock is held for longer
//!   than the busy timeout of 15 s, a live worker may lose its leases.
//! - **Durability.** With `synchronous = full`, an acknowledged enqueue, finish or transactional handler survives a
//!   loss of power. A claim and a heartbeat do not wait for the disk (`normal`). If a loss of power undoes a claim, its
//!   job is available again, and the lease refuses the later writes of its worker. A killed process loses nothing under
//!   either setting. Measured per commit: 1.3 to 2.5 ms with `full`, 0.01 ms with `normal`.
//! - **Connections of the application** have their own settings. Give them a busy timeout, and begin transactions that
//!   read before they enqueue with `immediate_transaction`. If a transaction has only read so far and another process
//!   has written in between, SQLite refuses its first write.

mod async_connection;
pub(crate) mod bench;
mod connect;
mod declare;
mod doctor;
mod file_system;
mod flow_control;
mod heartbeat_connection;
mod hint;
mod history;
mod insert_each;
mod listen;
mod literal;
mod load;
mod migrate;
mod operator;
mod place;
pub(crate) mod queries;
mod runtime_settings;
mod schema;
mod shared_connection;
mod storage;
mod sync_connection;
mod time;
mod transact;
mod types;
mod url;

use std::sync::{Arc, Mutex};

use diesel_jobs_core::storage::StorageResult;

use crate::database::Database;
use crate::stopwatch::Stopwatch;
use shared_connection::SharedConnection;
pub(crate) use url::missing_file;

/// Opens the file of a `sqlite:` URL, and creates it if it is missing.
pub(crate) async fn open(url: &str, stopwatch: Stopwatch) -> StorageResult<Database> {
    let file: Arc<str> = url::file(url)?.into();
    let writer = Arc::new(SharedConnection::new(file.clone()));
    // Opens the file now, so that the start fails if its directory is not writable.
    writer.run(|_| Ok(())).await?;
    let reader = Arc::new(SharedConnection::new(file.clone()));
    Ok(Database {
        storage: Arc::new(storage::SqliteStorage {
            file: file.clone(),
            writer: writer.clone(),
            reader,
            swept_to: Mutex::default(),
            stopwatch,
        }),
        // The queries of operators may take long. They have their own connection, so that the worker's reads do not
        // wait.
        operator: Arc::new(operator::SqliteOperator {
            writer: writer.clone(),
            reader: Arc::new(SharedConnection::new(file.clone())),
            file,
        }),
        migrator: Arc::new(migrate::SqliteMigrator { writer }),
    })
}
