//! `queues`: what operators set for queues.

pub(super) mod args;
mod drain;
mod list;
mod purge;

use diesel_jobs_core::storage::{QueueSettings, unserved};
use diesel_jobs_storage::Database;
use serde::Serialize;

use self::args::QueuesAction;
use super::app::App;
use super::exit::{CliError, Exit};
use super::{database, output};

#[derive(Serialize)]
struct Changed {
    /// Whether it was different before.
    changed: bool,
    #[serde(flatten)]
    queue: QueueSettings,
}

pub(super) async fn queues(app: &App<'_>, action: &QueuesAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    match action {
        QueuesAction::List => return list::list(app, &database).await,
        QueuesAction::Drain(args) => return drain::drain(app, &database, args).await,
        QueuesAction::Purge(args) => return purge::purge(app, &database, args).await,
        QueuesAction::Pause(args) => {
            let changed = operator.pause_queue(&args.name, &args.who.name(app)?, args.reason.as_deref()).await?;
            say(app, &database, &args.name, changed).await?;
        }
        QueuesAction::Resume(args) => {
            let changed = operator.resume_queue(&args.name, &args.who.name(app)?).await?;
            say(app, &database, &args.name, changed).await?;
        }
        QueuesAction::Slots(args) => {
            let changed = operator.set_slots(&args.queue, args.slots.0, &args.who.name(app)?).await?;
            say(app, &database, &args.queue, changed).await?;
        }
    }
    Ok(Exit::Fine)
}

/// Prints the settings of the queue after the command. Warns if no live worker serves it, because the name may be
/// wrong.
async fn say(app: &App<'_>, database: &Database, name: &str, changed: bool) -> Result<(), CliError> {
    let known = database.operator.queues().await?.into_iter().find(|queue| queue.name == name);
    let queue = known.unwrap_or_else(|| QueueSettings { name: name.to_owned(), paused: None, slots: None });
    let answer = Changed { changed, queue };
    output::print(app.json, &answer, || {
        let already = if changed { "" } else { " already" };
        output::printable(&format!("queue `{name}`{already}: {}", settings(&answer.queue))) + "\n"
    })?;
    warn_if_unserved(database, name).await
}

async fn warn_if_unserved(database: &Database, name: &str) -> Result<(), CliError> {
    if let Some(problem) = unserved(name, &database.operator.workers().await?) {
        output::complain(&output::printable(&format!(
            "warning: {problem}; `worker queues` lists the queues and who serves them"
        )));
    }
    Ok(())
}

/// The settings in words.
fn settings(queue: &QueueSettings) -> String {
    let slots = match queue.slots {
        Some(slots) => format!("{} in each worker", output::count(slots.into(), "slot")),
        None => "slots as each worker was started".to_owned(),
    };
    match &queue.paused {
        Some(pause) => format!("{pause}; {slots}"),
        None => format!("not paused; {slots}"),
    }
}
