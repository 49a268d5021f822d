//! The command line.

use clap::{Parser, ValueEnum};

use crate::handler::Mode;
use crate::name::Name;

/// The first argument of the worker processes that this program starts.
pub(crate) const WORKER: &str = "worker-process";

/// Compares `diesel-jobs` with other job queues for Rust on PostgreSQL.
///
/// Makes databases of its own (`jobs_peers_*`) on the server and drops them afterwards.
#[derive(Parser)]
#[command(name = "jobs-peers", version)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(required = true)]
    pub(crate) measures: Vec<Measure>,

    /// One JSON object per line instead of tables.
    #[arg(long)]
    pub(crate) json: bool,

    /// Rounds; in each, every system has its turn. Without it: 3, for `snapshot` 1.
    #[arg(long)]
    pub(crate) runs: Option<usize>,

    /// Jobs of `bulk` and `drain`; `backlog` has ten times as many waiting.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) n: usize,

    /// How long `steady` runs; `snapshot` runs six times as long.
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u64,

    /// These systems only, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) systems: Vec<Name>,

    /// A PostgreSQL server, with a user who may create databases.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: String,
}

/// What can be measured, in the order of `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// How fast one worker process empties a full queue.
    Drain,
    /// One job per transaction, on 1, 8 and 16 connections, while a worker is busy.
    Enqueue,
    /// Many jobs through each system's bulk function.
    Bulk,
    /// From the commit of a job to the start of its handler, on an idle worker.
    Latency,
    /// Enqueueing and draining at the same time.
    Steady,
    /// How fast the first jobs of a million are drained.
    Backlog,
    /// `steady` while another session holds an old snapshot.
    Snapshot,
    /// Everything.
    All,
}

impl Measure {
    /// The single measures.
    pub(crate) const EACH: [Self; 7] =
        [Self::Drain, Self::Enqueue, Self::Bulk, Self::Latency, Self::Steady, Self::Backlog, Self::Snapshot];
}

/// The arguments of a worker process.
#[derive(Parser)]
pub(crate) struct WorkerArgs {
    /// Whose worker.
    #[arg(long)]
    pub(crate) system: Name,
    /// What its handlers do.
    #[arg(long)]
    pub(crate) mode: Mode,
    /// Where.
    #[arg(long, env = "DATABASE_URL")]
    pub(crate) database_url: String,
}
