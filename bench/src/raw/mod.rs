//! The raw baseline: what hand-written prepared statements on tokio-postgres achieve on the tables of `diesel-jobs`.
//!
//! One statement per file. They move the same columns with the same durability, in batches of [`BATCH`]. They do not
//! check, decode or notify. Their connections plan each statement once, and never as a scan of a whole table: an
//! unlucky plan must not lower the baseline.

mod claim;
mod enqueue;
mod enqueue_many;
mod finish;
mod flow;
mod in_turn;
mod json;
mod pickup;
pub(crate) mod seed;
pub(crate) mod sqlite;

use anyhow::Result;
use tokio_postgres::Client;

pub(crate) use enqueue::Enqueuer;
pub(crate) use enqueue_many::BulkEnqueuer;
pub(crate) use flow::{End, Flow};
pub(crate) use in_turn::in_turn;
pub(crate) use pickup::Pickup;

/// Jobs per statement.
pub(crate) const BATCH: usize = 500;

/// The worker of all claims. `jobs.running` requires one. This one is not registered.
const WORKER: &str = "00000000-0000-7000-8000-000000000001";

async fn connect(url: &str) -> Result<Client> {
    let client = crate::server::connect(url).await?;
    client
        .batch_execute(
            "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off",
        )
        .await?;
    Ok(client)
}
