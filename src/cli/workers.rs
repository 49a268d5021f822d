//! `workers`: what the workers are and run, and what operators ask of them.

use clap::{Args, Subcommand};
use diesel_jobs_core::WorkerRecord;
use diesel_jobs_core::storage::{Asked, QueueSettings, RunningJob};
use serde::Serialize;

use super::actor_args::Who;
use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

#[derive(Debug, Subcommand)]
pub(super) enum WorkersAction {
    /// Print the workers; the default
    List,
    /// Print one worker, and what it is running
    Show {
        /// The worker's id, or a unique prefix of it
        id: String,
    },
    /// Ask a worker to stop claiming jobs; its running jobs continue
    Quiet(AskArgs),
    /// Ask a worker to stop, as SIGTERM does
    Stop(AskArgs),
}

#[derive(Debug, Args)]
pub(super) struct AskArgs {
    /// The worker's id, or a unique prefix of it
    id: String,
    #[command(flatten)]
    who: Who,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    worker: WorkerRecord,
    running: Vec<RunningJob>,
}

pub(super) async fn workers(app: &App<'_>, action: &WorkersAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    let workers = operator.workers().await?;
    match action {
        WorkersAction::List => {
            let settings = operator.queues().await?;
            output::print(app.json, &workers, || list(&workers, &settings))?;
        }
        WorkersAction::Show { id } => {
            let (worker, settings) = (find(workers, id)?, operator.queues().await?);
            let shown = Shown { running: operator.running(worker.id).await?, worker };
            output::print(app.json, &shown, || show(&shown, &settings))?;
        }
        WorkersAction::Quiet(args) | WorkersAction::Stop(args) => {
            let asked = if matches!(action, WorkersAction::Stop(_)) { Asked::Stop } else { Asked::Quiet };
            let worker = find(workers, &args.id)?;
            if !operator.ask_worker(worker.id, asked, &args.who.name(app)?).await? {
                return Err(CliError::failed(format!("worker {} has stopped in the meantime", worker.id)));
            }
            let worker = find(operator.workers().await?, &worker.id.to_string())?;
            output::print(app.json, &worker, || {
                let state = output::printable(&worker.state_text());
                format!("worker {}: {state}; it follows with its next heartbeat\n", worker.id)
            })?;
        }
    }
    Ok(Exit::Fine)
}

/// The worker whose id begins like this.
fn find(workers: Vec<WorkerRecord>, id: &str) -> Result<WorkerRecord, CliError> {
    let mut found: Vec<WorkerRecord> =
        workers.into_iter().filter(|worker| !id.is_empty() && worker.id.to_string().starts_with(id)).collect();
    match (found.pop(), found.len()) {
        (Some(worker), 0) => Ok(worker),
        (Some(_), others) => {
            Err(CliError::failed(format!("{} workers have ids that begin with {id:?}; give a longer one", others + 1)))
        }
        (None, _) => Err(CliError::failed(format!("there is no worker {id:?}; `worker workers` lists them"))),
    }
}

fn list(workers: &[WorkerRecord], settings: &[QueueSettings]) -> String {
    if workers.is_empty() {
        return "no workers\n".to_owned();
    }
    let mut table = Table::new(&[
        ("WORKER", Align::Left),
        ("HOST", Align::Left),
        ("PID", Align::Right),
        ("VERSION", Align::Left),
        ("STATE", Align::Left),
        ("HEARTBEAT AT", Align::Left),
        ("QUEUES", Align::Left),
    ]);
    for worker in workers {
        table.row([
            worker.id.to_string(),
            worker.host.clone(),
            worker.pid.to_string(),
            worker.version.clone().unwrap_or_default(),
            worker.state_text(),
            output::time(worker.heartbeat_at),
            worker.queues_text(settings),
        ]);
    }
    table.render()
}

fn show(Shown { worker, running }: &Shown, settings: &[QueueSettings]) -> String {
    let rows = [
        ("worker", worker.id.to_string()),
        ("state", worker.state_text()),
        ("host", format!("{} (process {})", worker.host, worker.pid)),
        ("version", worker.version.clone().unwrap_or_default()),
        ("queues", worker.queues_text(settings)),
        ("started at", output::time(worker.started_at)),
        ("heartbeat at", output::time(worker.heartbeat_at)),
    ];
    let mut text: String =
        rows.iter().map(|(name, value)| format!("{name:<14}{}\n", output::printable(value))).collect();
    if running.is_empty() {
        return text + "\nit runs nothing now\n";
    }
    let mut table = Table::new(&[
        ("JOB", Align::Right),
        ("KIND", Align::Left),
        ("QUEUE", Align::Left),
        ("ATTEMPT", Align::Right),
        ("CLAIMED AT", Align::Left),
    ]);
    for job in running {
        let attempt = job.attempt.to_string();
        table.row([job.id.to_string(), job.kind.clone(), job.queue.clone(), attempt, output::time(job.claimed_at)]);
    }
    text.push('\n');
    text + &table.render()
}
