//! What an action on all jobs that match has done, or would do.

use diesel_jobs_core::storage::{Action, Count, JobFilter, OperationRecord, Preview};
use serde::Serialize;

use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::super::list::{self, Row};
use super::super::{output, wording};
use super::answer::{self, Answer};
use super::by_pages::Done;
use super::drive;

/// The answer in JSON. Its fields are the same for a dry run, an operation and a command with a limit.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    action: &'static str,
    argument: Option<String>,
    filter: String,
    dry_run: bool,
    matched: Count,
    /// Some of the jobs that match. Only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<Vec<Row<'a>>>,
    changed: u64,
    interrupted: bool,
    /// The operation that does it.
    operation: Option<OperationRecord>,
    /// Jobs that had moved before they could be changed. An operation names such jobs in `problem`.
    left_out: Vec<Answer>,
}

impl<'a> Report<'a> {
    pub(super) fn new(action: &Action, filter: &JobFilter, preview: &Preview) -> Self {
        Self {
            action: action.as_str(),
            argument: action.argument(),
            filter: filter.to_string(),
            dry_run: false,
            matched: preview.count,
            sample: None,
            changed: 0,
            interrupted: false,
            operation: None,
            left_out: Vec::new(),
        }
    }

    /// Nothing matches.
    pub(super) fn nothing(self, app: &App<'_>, is_dry_run: bool) -> Result<Exit, CliError> {
        let matched = Count { jobs: 0, is_exact: true };
        let report = Self { matched, dry_run: is_dry_run, sample: is_dry_run.then(Vec::new), ..self };
        output::print(app.json, &report, || output::printable(&format!("no job matches {}", report.filter)) + "\n")?;
        Ok(Exit::Fine)
    }

    /// What would be done.
    pub(super) fn dry_run(self, app: &App<'_>, preview: &'a Preview, question: &str) -> Result<Exit, CliError> {
        let sample = preview.sample.iter().map(Row::from).collect();
        let report = Report { dry_run: true, sample: Some(sample), ..self };
        output::print(app.json, &report, || {
            format!("nothing was changed; without --dry-run the command would {question}\n\n{}", sample_of(preview))
        })?;
        Ok(Exit::Fine)
    }

    /// What was done up to a limit.
    pub(super) fn by_pages(self, app: &App<'_>, done: Done) -> Result<Exit, CliError> {
        let Done { changed, left_out, is_interrupted } = done;
        let report = Report { changed, left_out, interrupted: is_interrupted, ..self };
        output::print(app.json, &report, || {
            let left = answer::left_out(&report.left_out.iter().collect::<Vec<_>>());
            let changed = wording::exactly(changed);
            let end = if is_interrupted {
                format!("interrupted: {changed} changed; run the command again for the rest\n")
            } else {
                format!("{changed} changed\n")
            };
            end + &left
        })?;
        Ok(if is_interrupted { Exit::Failed } else { Exit::Fine })
    }

    /// How far an operation is that this command has worked on. If it is open, the user has interrupted the command.
    pub(super) fn operation(self, app: &App<'_>, record: OperationRecord) -> Result<Exit, CliError> {
        let changed = u64::try_from(record.changed).unwrap_or_default();
        let (exit, is_interrupted) = (exit(&record), record.finished_at.is_none());
        let matched = self.matched;
        let report = Report { changed, interrupted: is_interrupted, operation: Some(record), ..self };
        output::print(app.json, &report, || match &report.operation {
            Some(record) if is_interrupted => {
                format!("interrupted: {} changed. {}\n", wording::exactly(changed), drive::advice(record.id))
            }
            Some(record) => ended(record, Some(matched)),
            None => String::new(),
        })?;
        Ok(exit)
    }

    /// An operation that only the workers do.
    pub(super) fn detached(self, app: &App<'_>, record: OperationRecord) -> Result<Exit, CliError> {
        let report = Report { operation: Some(record), ..self };
        output::print(app.json, &report, || match &report.operation {
            Some(OperationRecord { id, .. }) => format!(
                "operation {id} has started, and workers carry it out; `worker operations show {id}` shows its \
                 progress, and `worker operations cancel {id}` ends it\n"
            ),
            None => String::new(),
        })?;
        Ok(Exit::Fine)
    }
}

/// The exit code of a command that has worked on an operation.
pub(in super::super) fn exit(record: &OperationRecord) -> Exit {
    let is_done = record.finished_at.is_some() && record.cancelled_by.is_none() && record.problem.is_none();
    if is_done { Exit::Fine } else { Exit::Failed }
}

/// An operation that has ended. `matched`: how many jobs it was to change.
pub(in super::super) fn ended(record: &OperationRecord, matched: Option<Count>) -> String {
    let changed = u64::try_from(record.changed).unwrap_or_default();
    let mut text = match &record.cancelled_by {
        Some(actor) => format!(
            "operation {} was cancelled by {}: {} changed before\n",
            record.id,
            output::printable(actor),
            wording::exactly(changed)
        ),
        None => format!("operation {} is done: {} changed\n", record.id, wording::exactly(changed)),
    };
    if let Some(problem) = &record.problem {
        text.push_str(&format!("{}\n", output::printable(problem)));
    } else if let Some(matched) =
        matched.filter(|matched| matched.is_exact && matched.jobs > changed && record.cancelled_by.is_none())
    {
        let moved = wording::exactly(matched.jobs - changed);
        text.push_str(&format!("{moved} had changed in the meantime and no longer matched\n"));
    }
    text
}

/// Some of the jobs, and how many others there are.
pub(super) fn sample_of(preview: &Preview) -> String {
    let shown = preview.sample.len() as u64;
    let more = match preview.count {
        count if !count.is_exact => "and others\n".to_owned(),
        count if count.jobs > shown => {
            let more = Count { jobs: count.jobs - shown, is_exact: true };
            format!("and {more} more\n")
        }
        _ => String::new(),
    };
    list::table(&preview.sample) + &more
}
