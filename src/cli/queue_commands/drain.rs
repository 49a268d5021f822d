//! `queues drain`: pauses a queue, and waits until none of its jobs runs.

use std::time::{Duration, Instant};

use diesel_jobs_core::shell::{argument, jobs_of};
use diesel_jobs_core::storage::NO_WORKER_ENDS_JOBS;
use diesel_jobs_storage::Database;
use serde::Serialize;

use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::super::{duration, output};
use super::args::DrainArgs;

/// The pause between two reads.
const EVERY: Duration = Duration::from_millis(250);

#[derive(Serialize)]
struct Drained {
    queue: String,
    /// How many jobs of it still run.
    running: u64,
}

pub(super) async fn drain(app: &App<'_>, database: &Database, args: &DrainArgs) -> Result<Exit, CliError> {
    let (name, begun) = (&args.pause.name, Instant::now());
    let actor = args.pause.who.name(app)?;
    database.operator.pause_queue(name, &actor, args.pause.reason.as_deref()).await?;
    super::warn_if_unserved(database, name).await?;
    let mut said = None;
    let running = loop {
        let running = database.operator.running_in(name).await?;
        if running == 0 || args.timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            break running;
        }
        if said != Some(running) {
            let left = output::count(i64::try_from(running).unwrap_or(i64::MAX), "job");
            output::complain(&output::printable(&format!("queue `{name}` is paused; {left} left")));
            if said.is_none() && !database.operator.workers().await?.iter().any(|worker| worker.alive) {
                output::complain(NO_WORKER_ENDS_JOBS);
            }
            said = Some(running);
        }
        tokio::time::sleep(EVERY).await;
    };
    let drained = Drained { queue: name.clone(), running };
    output::print(app.json, &drained, || {
        let took = duration::human(begun.elapsed());
        let text = match running {
            0 => {
                format!(
                    "queue `{name}` is paused, and none of its jobs runs; to continue: `worker queues resume {}`",
                    argument(name)
                )
            }
            left => {
                let jobs = output::count(i64::try_from(left).unwrap_or(i64::MAX), "job");
                format!(
                    "after {took}, {jobs} of queue `{name}` still run; the queue stays paused; to see them: `worker list --state running {}`",
                    jobs_of(name, None)
                )
            }
        };
        output::printable(&text) + "\n"
    })?;
    Ok(if running == 0 { Exit::Fine } else { Exit::Failed })
}
