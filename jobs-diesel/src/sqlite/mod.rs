//! SQLite, the embedded default: one file, WAL, one process or a few on one machine.
//!
//! - **One writer.** SQLite lets one transaction write at a time, in all processes together. This process writes
//!   through one connection whose users take turns (`slot.rs`); between processes `begin immediate` and a busy timeout
//!   make the turns. More connections would only wait, so the number of handlers asked for does not matter here.
//! - **Transactional handlers hold that turn** from their first line to their last: nothing else is enqueued, claimed
//!   or finished meanwhile, by anybody. Keep them short, well below the lease:
//!   heartbeats wait for them too. A rescuer lets these through first, but a lock held beyond the busy timeout of 15 s may
//!   cost a live worker its leases.
//! - **Durability.** `synchronous = full`: an enqueue, a finish or a transactional handler that was acknowledged
//!   survives the loss of power. A claim and a heartbeat do not wait for the disk (`normal`): forgotten by a power cut,
//!   a claim is an available job again, and the lease refuses whatever its worker still writes. A killed process
//!   loses nothing under either setting. Measured per commit: 1.3 to 2.5 ms with `full`, 0.01 ms with `normal`.
//! - **Connections of the application** bring their own settings. Give them a busy timeout, and begin transactions that
//!   read before they enqueue with `immediate_transaction`: SQLite refuses to turn a transaction that has read into one
//!   that writes if another process wrote in between.

mod async_executor;
pub(crate) mod bench;
mod connect;
mod hint;
mod listen;
mod literal;
mod migrate;
mod operator;
mod place;
mod queries;
mod schema;
mod slot;
mod storage;
mod sync_executor;
mod time;
mod transact;
mod types;
mod url;

use std::sync::Arc;

use diesel_jobs_core::storage::StorageResult;

use crate::database::Database;
use slot::Slot;

/// Opens the file behind a `sqlite:` URL and creates it if it is missing. The number of transactional handlers
/// does not matter: SQLite has one writer.
pub async fn open(url: &str, _handlers: usize) -> StorageResult<Database> {
    let file: Arc<str> = url::file(url)?.into();
    let writer = Arc::new(Slot::new(file.clone()));
    // Opened now, so that a directory that cannot be written to is found at start-up.
    writer.run(|_| Ok(())).await?;
    let reader = Arc::new(Slot::new(file.clone()));
    Ok(Database {
        storage: Arc::new(storage::SqliteStorage { file: file.clone(), writer: writer.clone(), reader }),
        // People's questions may take long: they do not make the worker's reads wait.
        operator: Arc::new(operator::SqliteOperator { writer: writer.clone(), reader: Arc::new(Slot::new(file)) }),
        migrator: Arc::new(migrate::SqliteMigrator { writer }),
    })
}
