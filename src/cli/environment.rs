//! `environment`: which environment the database belongs to. Only workers of the same name serve it.

use diesel_jobs_core::installation::check_words;
use diesel_jobs_storage::Database;
use serde::Serialize;

use super::app::App;
use super::cancel_backlog::{self, Ended};
use super::command_args::{EnvironmentAction, SetArgs};
use super::exit::{CliError, Exit};
use super::{database, output};

#[derive(Serialize)]
struct Named<'a> {
    environment: Option<&'a str>,
    cancelled: usize,
}

pub(super) async fn environment(app: &App<'_>, action: &EnvironmentAction) -> Result<Exit, CliError> {
    if let EnvironmentAction::Set(args) = action {
        check_words("the name", &args.name).map_err(CliError::usage)?;
    }
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let before = database.storage.check_schema().await?.environment;
    match action {
        EnvironmentAction::Show => say(app, before.as_deref(), 0, || match &before {
            Some(name) => format!("{}\n", output::printable(name)),
            None => "this database has no name; a command such as `worker environment set production` gives it one\n"
                .to_owned(),
        }),
        EnvironmentAction::Set(args) => set(app, &database, before.as_deref(), args).await,
        EnvironmentAction::Unset(who) => {
            database.operator.set_environment(None, &who.name(app)?).await?;
            say(app, None, 0, || "this database no longer has a name; any worker may serve it\n".to_owned())
        }
    }
}

/// Stores the name. If the database had no name, this only restricts which workers may start. If it had another name,
/// the database is a copy or the URL is wrong. The jobs of a copy must not run by accident, so an option must decide
/// about them. If the URL is wrong, live workers are found, and the command fails.
async fn set(app: &App<'_>, database: &Database, before: Option<&str>, args: &SetArgs) -> Result<Exit, CliError> {
    let (name, by) = (args.name.as_str(), args.who.name(app)?);
    let mut ended = Ended::default();
    if let Some(before) = before.filter(|before| *before != name) {
        refuse_in_use(database, before).await?;
        let jobs = cancel_backlog::size(database).await?;
        if jobs.jobs > 0 && !args.cancel_jobs && !args.keep_jobs {
            return Err(CliError::failed(format!(
                "{} of `{before}` wait or run here, and workers of `{name}` would run them: pass --cancel-jobs to end them, or \
                 --keep-jobs to have them run",
                output::depth(jobs, "job"),
            )));
        }
    }
    if args.cancel_jobs {
        ended = cancel_backlog::end(database, &by).await?;
    }
    database.operator.set_environment(Some(name), &by).await?;
    say(app, Some(name), ended.cancelled, || {
        let cancelled = if args.cancel_jobs { cancel_backlog::said(ended.cancelled) } else { String::new() };
        format!(
            "{cancelled}this database belongs to `{name}`: only workers that start with JOBS_ENVIRONMENT={name} serve it; \
             those that run already continue\n"
        )
    })
}

async fn refuse_in_use(database: &Database, before: &str) -> Result<(), CliError> {
    let alive = database.operator.workers().await?.iter().filter(|worker| worker.alive).count();
    if alive == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "{} at work on this database of `{before}`: is the URL right? If it is a copy that was just made, its workers count as \
         dead after their lease; `stats` names them",
        if alive == 1 { "1 worker is".to_owned() } else { format!("{alive} workers are") },
    )))
}

fn say(
    app: &App<'_>,
    environment: Option<&str>,
    cancelled: usize,
    human: impl FnOnce() -> String,
) -> Result<Exit, CliError> {
    output::print(app.json, &Named { environment, cancelled }, human)?;
    Ok(Exit::Fine)
}
