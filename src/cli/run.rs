//! `run`: the worker, from start-up checks to the drained end.

use super::app::App;
use super::args::RunArgs;
use super::exit::{CliError, Exit};
use super::signals::Signals;
use super::{database, settings, unknown_queues, worker};

/// Runs until a signal. A database that is away at start-up ends the process at once: a wrong URL must be seen, and
/// a supervisor starts it again. Once the worker runs, it survives such outages by itself.
pub(super) async fn run(app: App<'_>, args: &RunArgs) -> Result<Exit, CliError> {
    let settings = settings::run(args, app.env)?;
    let chosen = app.chosen()?;
    // Before anything slow: a signal during start-up must not be lost.
    let mut signals =
        Signals::install().map_err(|error| CliError::failed(format!("listening for signals: {error}")))?;
    tracing::info!(target: "diesel_jobs", "using {chosen}");
    let url = chosen.url.clone();
    let started = async {
        let database = database::open(&url, worker::handlers(&settings)).await?;
        // The worker checks this again when it registers. But the program's set-up may already need the tables.
        database.storage.check_schema().await?;
        let mut worker = worker::build(database.storage, app.setup, &settings).await?;
        unknown_queues::say(&mut worker, &*database.operator).await;
        Ok::<_, CliError>(worker)
    };
    let worker = tokio::select! {
        worker = started => worker?,
        _ = signals.next() => return Ok(Exit::Fine),
    };

    let handle = worker.handle();
    worker
        .run_until(async move {
            let signal = signals.next().await;
            tracing::info!(target: "diesel_jobs", { signal }, "asked to stop; a second signal stops at once");
            tokio::spawn(async move {
                let signal = signals.next().await;
                tracing::warn!(target: "diesel_jobs", { signal }, "asked again: stopping now");
                handle.shutdown_now();
            });
        })
        .await?;
    Ok(Exit::Fine)
}
