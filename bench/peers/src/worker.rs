//! A worker process: connects, says so, waits for the word to go, and works until it is killed.

use anyhow::Result;

use crate::args::WorkerArgs;
use crate::gate::Gate;
use crate::{handler, systems};

/// The whole process.
pub(crate) async fn run(args: WorkerArgs) -> Result<()> {
    handler::start(args.mode);
    systems::of(args.system).work(&args.database_url, Gate::new()).await
}
