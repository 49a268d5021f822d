//! The arguments of `queues`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::super::act::args::How;
use super::super::actor_args::{Named, Pausing, Who};
use super::super::duration;

#[derive(Debug, Subcommand)]
pub(in super::super) enum QueuesAction {
    /// Print the queues that have jobs, a pause, other settings or a live worker; the default
    ///
    /// SLOTS counts the workers that claim: not those that drain or were asked to be quiet or to stop. RUNNING may be
    /// higher, because jobs that a worker has prefetched, or continues with, count as running.
    List,
    /// Stop claims from a queue until `resume`; its running jobs continue, and jobs can still be enqueued
    Pause(Pausing),
    /// End the pause of a queue
    Resume(Named),
    /// Set how many jobs of a queue each worker runs at once
    Slots(SlotsArgs),
    /// Pause a queue, and wait until none of its jobs runs
    ///
    /// It stays paused until `resume`, and its waiting jobs stay. To delete those: `purge`.
    Drain(DrainArgs),
    /// Delete the waiting jobs of a queue; jobs that run or have ended stay
    ///
    /// Scheduled, retrying and held jobs are deleted as well. This cannot be undone. The command prints how many jobs
    /// there are, and asks for the name of the queue.
    Purge(PurgeArgs),
}

#[derive(Debug, Args)]
pub(in super::super) struct SlotsArgs {
    /// The queue
    pub(super) queue: String,
    /// How many jobs each worker runs at once, from 0 to 10000; or `default`: as many as the worker was started with
    #[arg(value_name = "N", value_parser = slots)]
    pub(super) slots: Slots,
    #[command(flatten)]
    pub(super) who: Who,
}

/// The number that was given. `None`: as the worker was started.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Slots(pub(super) Option<u32>);

fn slots(text: &str) -> Result<Slots, String> {
    match text.trim() {
        "default" => Ok(Slots(None)),
        number => number
            .parse()
            .map(|number| Slots(Some(number)))
            .map_err(|_| format!("{text:?} is not a whole number from 0 to 10000, and not `default`")),
    }
}

#[derive(Debug, Args)]
pub(in super::super) struct DrainArgs {
    #[command(flatten)]
    pub(super) pause: Pausing,
    /// Give up after this time, such as 10m; the queue stays paused [default: wait until it is done]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(in super::super) struct PurgeArgs {
    /// The queue
    pub(super) queue: String,
    #[command(flatten)]
    pub(super) how: How,
}
