//! `retry`, `cancel` and the other commands that act on jobs: on some that are named by their ids, or on all that match a filter.

pub(super) mod answer;
pub(super) mod args;
mod by_ids;
mod by_pages;
pub(super) mod drive;
pub(super) mod interrupt;
pub(super) mod matching;
pub(super) mod report;

use diesel_jobs_core::storage::Action;

use self::args::{ActArgs, Chosen};
use super::app::App;
use super::exit::{CliError, Exit};
use super::{database, words};

pub(super) async fn act(app: &App<'_>, action: Action, args: &ActArgs) -> Result<Exit, CliError> {
    action.validate().map_err(|problem| CliError::usage(format!("--to: {problem}")))?;
    let chosen = args.chosen(words::command(&action))?;
    let actor = args.how.who.name_if_known(app)?;
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let operator = &*database.operator;
    match chosen {
        Chosen::Ids(ids) => by_ids::act(app, operator, &action, &ids, &args.how, &actor).await,
        Chosen::Matching(filter) => {
            let plan = matching::Plan { action, filter: *filter, actor, typed: None };
            matching::act(app, operator, &plan, &args.how).await
        }
    }
}
