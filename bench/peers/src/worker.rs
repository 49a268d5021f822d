//! A worker process: it connects, reports that, waits for the start signal, and runs jobs until it is killed.

use anyhow::Result;

use crate::args::WorkerArgs;
use crate::gate::Gate;
use crate::{handler, systems};

/// Runs the whole process.
pub(crate) async fn run(args: WorkerArgs) -> Result<()> {
    handler::start(args.mode);
    systems::of(args.system).work(&args.database_url, Gate::new()).await
}
