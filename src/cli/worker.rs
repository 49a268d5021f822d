//! Builds the worker that `run` starts and that `doctor` examines: the program's set-up, overridden by the options.

use std::sync::Arc;

use diesel_jobs_core::storage::{Storage, is_pattern, served_as};
use diesel_jobs_core::{Recorder, Registry, Worker, WorkerBuilder};
use diesel_jobs_storage::Database;

use super::app::Setup;
use super::database;
use super::exit::CliError;
use super::queues::{QueueEntry, QueueList};
use super::run_args::RunArgs;
use super::url::Chosen;

/// The most connections for transactional handlers if no option sets the number. Servers allow 100 connections for all
/// programs together.
const MOST_CONNECTIONS: usize = 20;

/// Opens the worker's database.
pub(super) async fn open(chosen: &Chosen, settings: &RunArgs) -> Result<Database, CliError> {
    let builder = database::builder(chosen)?.handlers(handlers(settings));
    let builder = match settings.max_lifetime {
        Some(lifetime) => builder.max_lifetime(lifetime),
        None => builder,
    };
    Ok(builder.open().await?)
}

/// Returns how many connections transactional handlers may use at once.
fn handlers(settings: &RunArgs) -> usize {
    let usual = settings.slots.unwrap_or(WorkerBuilder::DEFAULT_SLOTS);
    let slots = || match &settings.queues {
        // A pattern may serve any number of queues.
        Some(queues) if queues.0.iter().any(|queue| is_pattern(&queue.name)) => MOST_CONNECTIONS,
        Some(queues) => queues.0.iter().map(|queue| queue.slots.unwrap_or(usual)).sum(),
        None => Registry::linked().queues().len().saturating_mul(usual),
    };
    settings
        .connections
        .unwrap_or_else(|| slots().min(settings.slots_total.unwrap_or(usize::MAX)).clamp(1, MOST_CONNECTIONS))
}

/// Builds the worker. It checks everything that can be checked without running a job.
pub(super) async fn build(
    storage: Arc<dyn Storage>,
    setup: Option<Setup>,
    settings: &RunArgs,
    recorder: Option<Arc<dyn Recorder>>,
) -> Result<Worker, CliError> {
    let mut builder = Worker::builder(storage);
    if let Some(recorder) = recorder {
        builder = builder.recorder(recorder);
    }
    if let Some(setup) = setup {
        builder =
            setup(builder).await.map_err(|error| CliError::failed(format!("the worker's set-up failed: {error}")))?;
    }
    Ok(configure(builder, settings).build()?)
}

/// Returns the queues to which jobs of this program go by default, and which this worker does not serve.
pub(super) fn left_out(worker: &Worker) -> Vec<String> {
    let of_jobs = worker.registry().queues().into_iter();
    of_jobs.filter(|queue| served_as(worker.queues(), queue).is_none()).map(str::to_owned).collect()
}

fn configure(mut builder: WorkerBuilder, settings: &RunArgs) -> WorkerBuilder {
    let RunArgs {
        queues,
        slots,
        slots_total,
        concurrency: _,
        connections: _,
        max_lifetime: _,
        poll_interval,
        grace_period,
        lease,
        timeout,
        max_crashes,
        keep_history,
        retain_completed,
        retain_cancelled,
        retain_discarded,
        environment,
        program_version,
        until_empty: _,
        listen: _,
    } = settings;
    if let Some(slots) = slots {
        builder = builder.slots(*slots);
    }
    if let Some(slots) = slots_total {
        builder = builder.slots_total(*slots);
    }
    if let Some(interval) = poll_interval {
        builder = builder.poll_interval(*interval);
    }
    if let Some(period) = grace_period {
        builder = builder.grace_period(*period);
    }
    if let Some(lease) = lease {
        builder = builder.lease(*lease);
    }
    if let Some(timeout) = timeout {
        builder = builder.timeout(*timeout);
    }
    if let Some(max_crashes) = max_crashes {
        builder = builder.max_crashes(*max_crashes);
    }
    if let Some(time) = keep_history {
        builder = builder.keep_history(*time);
    }
    if let Some(time) = retain_completed {
        builder = builder.retain_completed(*time);
    }
    if let Some(time) = retain_cancelled {
        builder = builder.retain_cancelled(*time);
    }
    if let Some(time) = retain_discarded {
        builder = builder.retain_discarded(*time);
    }
    if let Some(environment) = environment {
        builder = builder.environment(environment);
    }
    if let Some(version) = program_version {
        builder = builder.program_version(version);
    }
    // A list of queues in the options replaces the queues of the set-up.
    let Some(QueueList(entries)) = queues else { return builder };
    entries.iter().fold(builder.clear_queues(), |builder, QueueEntry { name, slots }| match slots {
        Some(slots) => builder.queue(name, *slots),
        None => builder.serve(name),
    })
}
