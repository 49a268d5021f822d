//! An action on all jobs that match a filter: a preview, a question, and then an operation in batches.

use std::io::{self, IsTerminal as _};

use diesel_jobs_core::storage::{Action, Count, JobFilter, Operator, filter_for, preview};

use super::super::app::App;
use super::super::confirm::confirm;
use super::super::exit::{CliError, Exit};
use super::super::progress::Progress;
use super::super::signals::Signals;
use super::super::{kinds, output, wording};
use super::args::How;
use super::by_pages::{self, Most};
use super::drive;
use super::report::{self, Report};

/// What is to be done.
pub(in super::super) struct Plan {
    pub(in super::super) action: Action,
    pub(in super::super) filter: JobFilter,
    pub(in super::super) actor: String,
    /// What the user must write to continue. `None`: `yes`, or `delete`.
    pub(in super::super) typed: Option<String>,
}

pub(in super::super) async fn act(
    app: &App<'_>,
    operator: &dyn Operator,
    plan: &Plan,
    how: &How,
) -> Result<Exit, CliError> {
    let Plan { action, actor, .. } = plan;
    let filter = filter_for(action, &plan.filter).map_err(CliError::usage)?;
    let mut preview = preview(operator, action, &filter).await?;
    // Without any job, no operation is stored. The preview ends its search early, and relies on the last count of all
    // jobs, which may have missed some. So this reads all pages up to the first job.
    if preview.count.jobs == 0 && !preview.count.is_exact {
        preview.sample = operator.list_all(&filter, 1).await?;
        preview.count = Count { jobs: preview.sample.len() as u64, is_exact: preview.sample.is_empty() };
    }
    let report = Report::new(action, &filter, &preview);
    if preview.count.jobs == 0 {
        let exit = report.nothing(app, how.dry_run)?;
        kinds::warn_of_unknown(filter.kinds.iter().map(String::as_str));
        return Ok(exit);
    }
    let question = question(plan, &filter, &preview.count, how.limit);
    if how.dry_run {
        return report.dry_run(app, &preview, &question);
    }
    if !how.yes {
        output::complain(&report::sample_of(&preview));
    }
    let expected = plan.typed.as_deref().unwrap_or(if *action == Action::Delete { "delete" } else { "yes" });
    confirm(&question, expected, how.yes)?;

    let mut signals = Signals::install()?;
    if let Some(limit) = how.limit {
        let most = Most { jobs: limit, per_batch: how.batch };
        let done = by_pages::act(operator, action, &filter, actor, most, &mut signals).await?;
        return report.by_pages(app, done);
    }
    let id = operator.start_operation(action, &filter, actor).await?;
    let started = drive::existing(operator, id).await?;
    if how.detach {
        return report.detached(app, started);
    }
    if io::stderr().is_terminal() {
        output::complain(&format!("operation {id} has started; Ctrl-C leaves the rest to the workers"));
    }
    let progress = Progress::of_operation(&started, Some(preview.count));
    let record = drive::drive(operator, id, how.batch, progress, &mut signals).await?;
    report.operation(app, record)
}

/// What is about to be done, in a line.
fn question(plan: &Plan, filter: &JobFilter, count: &Count, limit: Option<usize>) -> String {
    let jobs = match limit {
        Some(limit) if count.jobs > limit as u64 || !count.is_exact => {
            format!("the newest {} of {}", wording::exactly(limit as u64), wording::jobs(count))
        }
        _ => wording::jobs(count),
    };
    let what = wording::to_do(&plan.action, &jobs);
    let that_match = if count.jobs == 1 && count.is_exact { "that matches" } else { "that match" };
    output::printable(&format!("{what} {that_match} {filter}: {}", wording::effect(&plan.action)))
}
