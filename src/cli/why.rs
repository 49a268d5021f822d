//! `why`: prints why a job does not run, and what to do.

use diesel_jobs_core::{JobId, Reason, Registry, Why};

use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, printable, time};

pub(super) async fn why(app: &App<'_>, id: i64) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let why = database.operator.why(JobId(id)).await?;
    output::print(app.json, &why, || human(&why))?;
    let is_there = !why.reasons.iter().any(|explained| matches!(explained.reason, Reason::NoSuchJob { .. }));
    Ok(if is_there { Exit::Fine } else { Exit::Failed })
}

fn human(why: &Why) -> String {
    let mut text = String::new();
    if let (Some(kind), Some(queue), Some(state)) = (&why.kind, &why.queue, why.state) {
        let (kind, queue) = (printable(kind), printable(queue));
        text.push_str(&format!("job {} of kind `{kind}` in queue `{queue}` is {state}\n", why.id));
    }
    for explained in &why.reasons {
        text.push_str(&format!("- {}\n", printable(&explained.text)));
        if !explained.advice.is_empty() {
            text.push_str(&format!("  help: {}\n", printable(&explained.advice)));
        }
    }
    if let Some(at) = why.start_by {
        text.push_str(&format!(
            "- it expires at {}: if its first attempt has not started by then, it is cancelled\n",
            time(at)
        ));
    }
    // It is no reason to wait, but one for which other jobs were not enqueued.
    if let Some(key) = &why.unique_key {
        let registry = Registry::linked();
        let rule = why.kind.as_deref().and_then(|kind| registry.get(kind)).and_then(|kind| kind.options.unique);
        text.push_str(&format!("its unique key does not delay it: {}\n", printable(&key.text(rule))));
    }
    text
}
