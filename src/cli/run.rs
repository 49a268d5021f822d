//! `run`: the worker, from the checks at its start to the end of its shutdown.

mod summary;

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::storage::Program;
use diesel_jobs_core::{Recorder, WorkerHandle, record_actions, record_enqueues};

use super::app::App;
use super::exit::{CliError, Exit};
use super::run_args::RunArgs;
use super::signals::Signals;
#[cfg(unix)]
use super::systemd;
use super::{listen, settings, standard_error, unknown_queues, unknown_variables, worker};

/// A bound of what the worker needs after the grace period, if the database answers slowly.
const LAST_STEPS: Duration = Duration::from_secs(30);

/// The time for the last line of a process that ends although its worker has not stopped.
const LAST_LINE: Duration = Duration::from_secs(2);

/// Runs until a signal, or until no job is due. If the database cannot be reached at the start, the process ends at
/// once, so that a wrong URL is noticed. A supervisor then restarts it. A running worker survives such outages.
pub(super) async fn run(app: App<'_>, args: &RunArgs) -> Result<Exit, CliError> {
    let settings = settings::run(args, app.env)?;
    let chosen = app.chosen()?.clone();
    // This comes before all slow steps, so that a signal during the start is not lost.
    let mut signals = Signals::install()?;
    tracing::info!(target: "diesel_jobs", "using {chosen}");
    unknown_variables::say();
    let probes = settings.listen.as_deref().map(listen::start).transpose()?;
    let started = async {
        let database = worker::open(&chosen, &settings).await?;
        // The worker checks this again when it registers. But the program's set-up may already need the tables.
        database.storage.check_schema().await?;
        let recorder = probes.as_ref().map(|probes| probes.metrics() as Arc<dyn Recorder>);
        let mut worker = worker::build(database.storage, app.setup, &settings, recorder).await?;
        unknown_queues::say_left_out(&worker::left_out(&worker), settings.queues.is_some());
        unknown_queues::say(&mut worker, &*database.operator).await;
        Ok::<_, CliError>((worker, database.operator))
    };
    let (worker, operator) = tokio::select! {
        started = started => started?,
        _ = signals.next() => return Ok(Exit::Fine),
    };

    let handle = worker.handle();
    #[cfg(unix)]
    if let Some(notifier) = systemd::Notifier::of(app.env) {
        notifier.follow(handle.clone(), handle.grace_period().saturating_add(LAST_STEPS));
    }
    if let Some(probes) = probes {
        probes.are_about(handle.clone());
        record_enqueues(probes.metrics());
        record_actions(probes.metrics());
        let operator = operator.clone();
        tokio::spawn(async move { probes.read_gauges(operator).await });
    }
    stop_on_signals(handle.clone())?;
    tokio::select! {
        biased;
        // It came before the other handlers were installed.
        _ = signals.next() => return Ok(Exit::Fine),
        () = std::future::ready(()) => {}
    }
    // The log has said then that the ends of these jobs could not be written.
    let ended = move |exit| if handle.in_flight() > 0 { Exit::Failed } else { exit };
    if !settings.until_empty {
        worker.run_until(std::future::pending()).await?;
        return Ok(ended(Exit::Fine));
    }
    let program = Program {
        queues: worker.queues().map(str::to_owned).collect(),
        kinds: worker.registry().kinds().into_iter().collect(),
        joins_workers: true,
        ..Program::default()
    };
    let stats = worker.run_until_empty().due_only().await?;
    summary::say_unserved(&*operator, &program).await;
    summary::say(&stats);
    Ok(ended(if stats.discarded > 0 { Exit::Discarded } else { Exit::Fine }))
}

/// Stops the worker at a signal. This has a thread and a runtime of its own. So a worker whose handlers block every
/// thread of the main runtime still says in the database that it stops, and then ends. That is no crash of its jobs.
/// Each step comes before its log line: a program may have a subscriber of its own, which waits until the line is read.
fn stop_on_signals(worker: WorkerHandle) -> Result<(), CliError> {
    let failed = |error| CliError::failed(format!("listening for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::install()?
    };
    let listen = async move {
        let mut asked = 0;
        tokio::select! {
            biased;
            // An operator has asked for it, or the run ends by itself.
            () = worker.until_draining() => {}
            signal = signals.next() => {
                worker.shutdown();
                asked = 1;
                tracing::info!(target: "diesel_jobs", { signal }, "asked to stop; a second signal stops at once");
            }
        }
        let asked_again = async {
            while asked < 2 {
                let signal = signals.next().await;
                asked += 1;
                match asked {
                    1 => {
                        tracing::info!(target: "diesel_jobs", { signal }, "stopping already; a second signal stops at once")
                    }
                    _ => {
                        worker.shutdown_now();
                        tracing::warn!(target: "diesel_jobs", { signal }, "asked again: stopping now; a third signal ends the process")
                    }
                }
            }
        };
        let _ = tokio::time::timeout(worker.grace_period(), asked_again).await;
        worker.shutdown_now();
        // A process that was suspended during its grace period needs this time, too.
        let last_steps = async {
            while asked < 3 {
                signals.next().await;
                asked += 1;
            }
        };
        let _ = tokio::time::timeout(LAST_STEPS, last_steps).await;
        exit_soon();
        let jobs = worker.in_flight();
        tracing::error!(target: "diesel_jobs", { jobs },
            "the worker has not stopped, and the process ends: other workers release its jobs ({jobs}) when its lease is over");
        standard_error::flush();
        std::process::exit(Exit::Failed as i32);
    };
    let thread = std::thread::Builder::new().name("jobs-signals".to_owned());
    thread.spawn(move || runtime.block_on(listen)).map_err(failed).map(drop)
}

/// Ends the process a moment later, so that its last line cannot keep it alive if nobody reads the log.
fn exit_soon() {
    let thread = std::thread::Builder::new().name("jobs-exit".to_owned()).spawn(|| {
        std::thread::sleep(LAST_LINE);
        std::process::exit(Exit::Failed as i32);
    });
    // Without threads, an end without a last line is better than none.
    if thread.is_err() {
        std::process::exit(Exit::Failed as i32);
    }
}
