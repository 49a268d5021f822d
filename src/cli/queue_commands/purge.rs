//! `queues purge`: deletes the jobs of a queue that wait.

use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{Action, JobFilter};
use diesel_jobs_storage::Database;

use super::super::act::matching::{self, Plan};
use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::args::PurgeArgs;

pub(super) async fn purge(app: &App<'_>, database: &Database, args: &PurgeArgs) -> Result<Exit, CliError> {
    let mut filter = JobFilter::of_queue(&args.queue);
    filter.states = JobState::ALL.into_iter().filter(|state| state.is_waiting()).collect();
    filter.validate().map_err(CliError::usage)?;
    let actor = args.how.who.name(app)?;
    let plan = Plan { action: Action::Delete, filter, actor, typed: Some(args.queue.trim().to_owned()) };
    matching::act(app, &*database.operator, &plan, &args.how).await
}
