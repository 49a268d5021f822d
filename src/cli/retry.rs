//! `retry`: makes ended or waiting jobs available now.

use diesel_jobs_core::JobId;

use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::operate::{Answer, report};

pub(super) async fn retry(app: &App<'_>, ids: &[i64]) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let jobs: Vec<JobId> = ids.iter().map(|id| JobId(*id)).collect();
    let operated = database.operator.retry_many(&jobs).await?;
    let answer = |(id, operated): (&i64, _)| {
        Answer::new(*id, operated, "available now", "only cancelled, discarded and waiting jobs can be retried")
    };
    let answers: Vec<Answer> = ids.iter().zip(operated).map(answer).collect();
    report(app, &answers)
}
