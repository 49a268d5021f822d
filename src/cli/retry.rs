//! `retry`: makes ended or waiting jobs available now.

use jobs_core::JobId;

use super::exit::{CliError, Exit};
use super::operate::{Answer, report};
use super::{App, database};

pub(super) async fn retry(app: &App<'_>, ids: &[i64]) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let mut answers = Vec::with_capacity(ids.len());
    for &id in ids {
        let operated = database.operator.retry(JobId(id)).await?;
        answers.push(Answer::new(
            id,
            operated,
            "available now",
            "only cancelled, discarded and waiting jobs can be retried",
        ));
    }
    report(app, &answers)
}
