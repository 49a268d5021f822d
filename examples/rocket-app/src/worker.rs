//! The worker inside the web server's process.

use anyhow::Context as _;
use diesel_jobs::{Database, Worker};

/// How many jobs of one queue run at the same time. Few, because the process also answers requests.
const SLOTS: usize = 4;

/// Runs the library's jobs until `stop` is ready. The jobs that run then get half a minute to end.
pub async fn run_worker(database_url: &str, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let database = Database::open(database_url, SLOTS).await.context("the worker's database")?;
    let worker = Worker::builder(database.storage).slots(SLOTS).build()?;
    worker.run_until(stop).await.context("the worker")
}
