//! `retry`, `cancel` and the other commands that act on jobs: on some that are named by their ids, or on all that match
//! a filter.

pub(super) mod answer;
pub(super) mod args;
mod by_ids;
mod by_pages;
pub(super) mod drive;
pub(super) mod interrupt;
pub(super) mod matching;
pub(super) mod report;

use chrono::Utc;
use diesel_jobs_core::storage::Action;

use self::args::{ActArgs, Chosen};
use super::app::App;
use super::enqueue::PAST;
use super::exit::{CliError, Exit};
use super::{database, output, waits, wording};

pub(super) async fn act(app: &App<'_>, action: Action, args: &ActArgs) -> Result<Exit, CliError> {
    action.validate().map_err(|problem| match action {
        Action::Move(_) => CliError::usage(format!("--to: {problem}")),
        _ => CliError::usage(problem),
    })?;
    let chosen = args.chosen(wording::command(&action))?;
    let actor = args.how.who.name(app)?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let operator = &*database.operator;
    let warning = match &action {
        Action::Move(queue) => waits::warning(operator, queue, None, "jobs that are moved there wait").await?,
        Action::Reschedule(at) if *at < Utc::now() - PAST => {
            Some("warning: the time of --at is in the past, so the jobs are due now".to_owned())
        }
        _ => None,
    };
    // Before the question, and again when it is done.
    let asks = matches!(chosen, Chosen::Matching(_)) && !args.how.yes;
    if let Some(text) = warning.as_ref().filter(|_| asks || args.how.dry_run) {
        output::complain(text);
    }
    let exit = match chosen {
        Chosen::Ids(ids) => by_ids::act(app, operator, &action, &ids, &args.how, &actor).await?,
        Chosen::Matching(filter) => {
            let plan = matching::Plan { action, filter: *filter, actor, typed: None };
            matching::act(app, operator, &plan, &args.how).await?
        }
    };
    if let Some(text) = warning.filter(|_| !args.how.dry_run) {
        output::complain(&text);
    }
    Ok(exit)
}
