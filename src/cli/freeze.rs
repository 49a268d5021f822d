//! `freeze` and `thaw`: while the database is frozen, no worker claims a job.

use diesel_jobs_core::Freeze;
use diesel_jobs_core::installation::check_words;
use serde::Serialize;

use super::app::App;
use super::cancel_backlog::{self, Ended};
use super::command_args::{FreezeArgs, ThawArgs};
use super::exit::{CliError, Exit};
use super::{database, output};

#[derive(Serialize)]
struct Frozen {
    /// Whether it was not frozen before.
    changed: bool,
    frozen: Option<Freeze>,
}

pub(super) async fn freeze(app: &App<'_>, args: &FreezeArgs) -> Result<Exit, CliError> {
    let by = args.who.name(app)?;
    check_words("--actor", &by).and_then(|()| check_words("--reason", &args.reason)).map_err(CliError::usage)?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let changed = database.operator.freeze(&by, &args.reason).await?;
    let answer = Frozen { changed, frozen: database.storage.check_schema().await?.frozen };
    output::print(app.json, &answer, || match &answer.frozen {
        Some(freeze) if changed => {
            format!(
                "{}\nrunning jobs continue, nothing else is claimed; to end it: `worker thaw`\n",
                output::printable(&freeze.to_string())
            )
        }
        Some(freeze) => {
            format!("it was {} already; to end it: `worker thaw`\n", output::printable(&freeze.to_string()))
        }
        None => "the database was frozen, and another operator has thawed it already\n".to_owned(),
    })?;
    Ok(Exit::Fine)
}

#[derive(Serialize)]
struct Thawed {
    /// Whether it was frozen before.
    changed: bool,
    cancelled: usize,
}

pub(super) async fn thaw(app: &App<'_>, args: &ThawArgs) -> Result<Exit, CliError> {
    let by = args.who.name(app)?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let Ended { cancelled } =
        if args.cancel_jobs { cancel_backlog::end(&database, &by).await? } else { Ended::default() };
    let answer = Thawed { changed: database.operator.thaw(&by).await?, cancelled };
    output::print(app.json, &answer, || {
        let ended = if args.cancel_jobs { cancel_backlog::said(cancelled) } else { String::new() };
        let thawed = if answer.changed { "thawed: workers claim again" } else { "it was not frozen" };
        format!("{ended}{thawed}\n")
    })?;
    Ok(Exit::Fine)
}
