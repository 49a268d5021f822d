//! The worker: claims jobs, runs their handlers, finishes them. One step of the flow per file.
//!
//! ```text
//! fetcher ── claim ──▶ prefetched ──▶ runner (a task per slot) ──▶ executor ── finish ──▶ completer ── batches ──▶ storage
//!    ▲ room, hints, timers                     leases lost ──▶ attempt        heartbeat: own thread, own connection
//! ```

mod attempt;
mod batch;
mod batch_transaction;
mod bounds;
mod build;
mod builder;
mod busy_polling;
mod cancelled;
mod completer;
mod conclusion;
mod conflicts;
mod ended;
mod error;
mod executor;
mod fetcher;
mod gathering;
mod health;
mod health_state;
mod heartbeat;
mod heartbeat_state;
pub(crate) mod idleness;
mod layers;
mod leases;
pub(crate) mod live;
mod locked;
mod nothing_waits;
mod passing_on;
mod paused_kinds;
mod phases;
mod prefetch;
mod quarantined;
mod queue;
mod queues;
pub(crate) mod report;
mod rows;
mod run;
mod runner;
mod served;
mod settings;
pub(crate) mod shared;
mod shutdown;
mod stats;
mod threads;
mod total_slots;
mod until_empty;
mod usual_durations;
mod valid_leases;
mod work_tally;
mod writer;

pub use builder::WorkerBuilder;
pub use error::WorkerError;
pub use health::{HealthCheck, QueueLoad};
pub use run::Worker;
pub use shutdown::WorkerHandle;
pub use stats::WorkerStats;
pub use until_empty::UntilEmpty;
