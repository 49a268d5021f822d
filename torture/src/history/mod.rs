//! What happened in a run: the tables of the schema `torture`, the code that writes them, and the code that reads them
//! for the checker.
//!
//! This module uses connections of its own to the real server, through a client library and not through the tested
//! code. Only effects are written on the connection that the worker gave to a handler.

mod load;
mod recorder;
mod rows;

use anyhow::Result;
use tokio_postgres::Client;

pub use load::{copy, load, save};
pub use recorder::{Recorder, What};
pub use rows::{CommitOutcome, Effect, Ending, Enqueued, Event, Failure, Fault, Job, OpenTransaction, Record};

/// The name of the fault after which the server may have lost what it did not promise to keep.
pub const CRASH: &str = "crash of the database";

/// Creates the tables, in a database that has the schema `jobs`.
pub async fn create(conn: &Client) -> Result<()> {
    conn.batch_execute(include_str!("schema.sql")).await?;
    Ok(())
}

/// Records a fault: something that was done to the workers or to the database.
pub async fn fault(conn: &Client, what: &str, pid: Option<u32>) -> Result<()> {
    let pid = pid.map(u32::cast_signed);
    conn.execute("insert into torture.fault (what, pid) values ($1, $2)", &[&what, &pid]).await?;
    Ok(())
}
