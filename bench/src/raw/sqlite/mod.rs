//! The raw baseline on SQLite: hand-written statements, prepared once, on one connection with the durability of the
//! store.

mod drain;
mod enqueue;
mod native;
mod seed;

use anyhow::{Context as _, Result};
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, SqliteConnection};

pub(crate) use drain::drain;
pub(crate) use enqueue::{Enqueuer, enqueue_many};
pub(crate) use seed::ready;

/// The current time, in the same expression as in the store.
const NOW: &str = "(cast(round(unixepoch('subsec') * 1000) as integer) * 1000)";

/// Opens the file like an application, with a busy timeout. A commit waits for the disk.
pub(crate) fn connect(path: &str) -> Result<SqliteConnection> {
    let mut conn = SqliteConnection::establish(path).context("opening the SQLite file")?;
    conn.batch_execute("pragma busy_timeout = 15000; pragma journal_mode = wal; pragma synchronous = full")?;
    Ok(conn)
}
