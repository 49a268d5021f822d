//! `cancel`: cancels waiting and running jobs.

use diesel_jobs_core::JobId;

use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::operate::{Answer, report};

pub(super) async fn cancel(app: &App<'_>, ids: &[i64]) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let jobs: Vec<JobId> = ids.iter().map(|id| JobId(*id)).collect();
    let operated = database.operator.cancel_many(&jobs).await?;
    let answer = |(id, operated): (&i64, _)| {
        Answer::new(*id, operated, "cancelled", "it has ended already, so there is nothing to cancel")
    };
    let answers: Vec<Answer> = ids.iter().zip(operated).map(answer).collect();
    report(app, &answers)
}
