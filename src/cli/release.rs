//! `release-permit` and `release-key`: take the permit or the unique key away from a job.

use clap::Args;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{KeyOfJob, PermitOfJob, key_text};
use serde::Serialize;

use super::actor_args::Who;
use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output;
use super::parse::id;

#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    /// The job
    #[arg(value_parser = id)]
    id: i64,
    #[command(flatten)]
    who: Who,
}

#[derive(Serialize)]
struct PermitAnswer {
    /// Whether the permit was freed.
    changed: bool,
    id: JobId,
    #[serde(flatten)]
    permit: PermitOfJob,
}

pub(super) async fn permit(app: &App<'_>, args: &ReleaseArgs) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let id = JobId(args.id);
    let permit = database.operator.release_permit(id, &args.who.name(app)?).await?;
    let changed = matches!(permit, PermitOfJob::Left { .. });
    let answer = PermitAnswer { changed, id, permit };
    output::print(app.json, &answer, || {
        let nothing = if changed { "" } else { "; nothing was changed" };
        output::printable(&format!("{}{nothing}", answer.permit.text(id))) + "\n"
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
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let id = JobId(args.id);
    let unique_key = database.operator.release_key(id, &args.who.name(app)?).await?;
    let changed = unique_key.is_some();
    let answer = KeyAnswer { changed, id, unique_key };
    output::print(app.json, &answer, || {
        let text = match &answer.unique_key {
            Some(KeyOfJob { name, key, .. }) => format!(
                "job {id} no longer has the unique key {} of `{name}`: the next enqueue with this key inserts a job; job {id} continues",
                key_text(key)
            ),
            None => format!("job {id} has no unique key; nothing was changed"),
        };
        output::printable(&text) + "\n"
    })?;
    Ok(if changed { Exit::Fine } else { Exit::Failed })
}
