//! What happened: the tables of the schema `torture`, who writes them, and who reads them for the checker.
//!
//! Everything here speaks to the real server on connections of its own, through a client library and not through what is
//! being tested. Only effects come through the connection that the worker gave to a handler.

mod load;
mod recorder;
mod rows;

use anyhow::Result;
use tokio_postgres::Client;

pub use load::{copy, load, save};
pub use recorder::{Recorder, What};
pub use rows::{CommitOutcome, Effect, Ending, Enqueued, Event, Failure, Fault, Job, OpenTransaction, Record};

/// The word for the fault that may make the server forget what it did not promise to keep.
pub const CRASH: &str = "crash of the database";

/// Makes the tables, in a database that has the schema `jobs`.
pub async fn create(conn: &Client) -> Result<()> {
    conn.batch_execute(include_str!("schema.sql")).await?;
    Ok(())
}

/// Writes down something that was done to the workers or to the database.
pub async fn fault(conn: &Client, what: &str, pid: Option<u32>) -> Result<()> {
    let pid = pid.map(u32::cast_signed);
    conn.execute("insert into torture.fault (what, pid) values ($1, $2)", &[&what, &pid]).await?;
    Ok(())
}
