//! `release-slot` and `release-key`: take the limit slot or the unique key away from a job.

use clap::Args;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{KeyOfJob, SlotOfJob, key_text};
use serde::Serialize;

use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output;
use super::parse::id;
use super::who::Who;

#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    /// The job
    #[arg(value_parser = id)]
    id: i64,
    #[command(flatten)]
    who: Who,
}

#[derive(Serialize)]
struct SlotAnswer {
    /// Whether the slot was freed.
    changed: bool,
    id: JobId,
    #[serde(flatten)]
    slot: SlotOfJob,
}

pub(super) async fn slot(app: &App<'_>, args: &ReleaseArgs) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let id = JobId(args.id);
    let slot = database.operator.release_slot(id, &args.who.name(app)?).await?;
    let changed = matches!(slot, SlotOfJob::Left { .. });
    let answer = SlotAnswer { changed, id, slot };
    output::print(app.json, &answer, || {
        let nothing = if changed { "" } else { "; nothing was changed" };
        output::printable(&format!("{}{nothing}", answer.slot.text(id))) + "\n"
    })?;
    Ok(if changed { Exit::Fine } else { Exit::Failed })
}

#[derive(Serialize)]
struct KeyAnswer {
    /// Whether the job had a key.
    changed: bool,
    id: JobId,
    /// The key that it had.
    unique_key: Option<KeyOfJob>,
}

pub(super) async fn key(app: &App<'_>, args: &ReleaseArgs) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let id = JobId(args.id);
    let unique_key = database.operator.release_key(id, &args.who.name(app)?).await?;
    let changed = unique_key.is_some();
    let answer = KeyAnswer { changed, id, unique_key };
    output::print(app.json, &answer, || {
        let text = match &answer.unique_key {
            Some(KeyOfJob { name, key, .. }) => format!(
                "job {id} does not have the unique key {} of `{name}` any more: the next enqueue with this key inserts a job; job {id} continues",
                key_text(key)
            ),
            None => format!("job {id} has no unique key; nothing was changed"),
        };
        output::printable(&text) + "\n"
    })?;
    Ok(if changed { Exit::Fine } else { Exit::Failed })
}
