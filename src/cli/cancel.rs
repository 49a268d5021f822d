//! `cancel`: ends waiting and running jobs.

use jobs_core::JobId;

use super::exit::{CliError, Exit};
use super::operate::{Answer, report};
use super::{App, database};

pub(super) async fn cancel(app: &App<'_>, ids: &[i64]) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let mut answers = Vec::with_capacity(ids.len());
    for &id in ids {
        let operated = database.operator.cancel(JobId(id)).await?;
        answers.push(Answer::new(id, operated, "cancelled", "it has ended already, so there is nothing to cancel"));
    }
    report(app, &answers)
}
