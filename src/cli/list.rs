//! `list`: one row per job, with the beginnings of its arguments and of its last error.

mod table;

use std::time::Duration;

use clap::Args;
use diesel_jobs_core::storage::{COUNTED, Found, NotCounted, Paging, search};
use diesel_jobs_core::{JobId, JobRecord, Registry};
use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use self::table::table;

use super::app::App;
use super::exit::{CliError, Exit};
use super::filter_args::FilterArgs;
use super::output;
use super::parse::{id, positive};
use super::{database, duration, kinds, redact, wording};

/// Why a number below [`COUNTED`] is not exact.
const STOPPED: &str =
    "; the count stopped before it had read all jobs: `worker list` with the same filter searches the others";

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many
    #[arg(long, value_name = "N", default_value = "50", value_parser = positive)]
    limit: usize,
    /// The next page: only jobs with a lower id than this
    #[arg(long, value_name = "ID", value_parser = id)]
    before: Option<i64>,
    /// The page before: only jobs with a higher id than this, the oldest of them
    #[arg(long, value_name = "ID", value_parser = id)]
    after: Option<i64>,
    /// Print only how many jobs match. Above 10,000 it prints "10,000+"
    #[arg(long, conflicts_with_all = ["limit", "before", "after"])]
    count: bool,
}

/// A job without its arguments.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    id: i64,
    kind: &'a str,
    queue: &'a str,
    state: diesel_jobs_core::JobState,
    priority: i16,
    attempt: u16,
    max_attempts: u16,
    crashes: u16,
    run_at: chrono::DateTime<chrono::Utc>,
    enqueued_at: chrono::DateTime<chrono::Utc>,
    claimed_at: Option<chrono::DateTime<chrono::Utc>>,
    finished_at: Option<chrono::DateTime<chrono::Utc>>,
    worker: Option<diesel_jobs_core::WorkerId>,
    tags: &'a [String],
    last_error: Option<&'a str>,
}

impl<'a> From<&'a JobRecord> for Row<'a> {
    fn from(job: &'a JobRecord) -> Self {
        Self {
            id: job.id.0,
            kind: &job.kind,
            queue: &job.queue,
            state: job.state,
            priority: job.priority,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            crashes: job.crashes,
            run_at: job.run_at,
            enqueued_at: job.enqueued_at,
            claimed_at: job.claimed_at,
            finished_at: job.finished_at,
            worker: job.worker,
            tags: &job.tags,
            last_error: job.last_error.as_deref(),
        }
    }
}

/// A job with its arguments, without the values of secret ones.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    job: Row<'a>,
    args: Option<&'a RawValue>,
}

impl<'a> From<(&'a JobRecord, &'a String)> for Listed<'a> {
    fn from((job, args): (&'a JobRecord, &'a String)) -> Self {
        // A change by hand may have stored what is no JSON.
        Self { job: Row::from(job), args: serde_json::from_str(args).ok() }
    }
}

pub(super) async fn list(app: &App<'_>, args: &ListArgs) -> Result<Exit, CliError> {
    let filter = args.filter.filter()?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    if args.count {
        let count = database.operator.count(&filter).await?;
        output::print(app.json, &count, || {
            let stopped = if count.is_exact || count.jobs >= COUNTED { "" } else { STOPPED };
            format!("{}{stopped}\n", wording::jobs(&count))
        })?;
        return Ok(Exit::Fine);
    }
    let start = Paging { before: args.before.map(JobId), after: args.after.map(JobId), limit: args.limit };
    let found = search(&*database.operator, &filter, start, Duration::MAX).await?;
    let registry = Registry::linked();
    let args: Vec<String> = found.jobs.iter().map(|job| redact::arguments(&registry, job).json).collect();
    let rows: Vec<Listed<'_>> = found.jobs.iter().zip(&args).map(Listed::from).collect();
    output::print(app.json, &rows, || human(&found, start))?;
    if found.jobs.is_empty() && !app.json {
        kinds::warn_of_unknown(filter.kinds.iter().map(String::as_str));
    }
    Ok(Exit::Fine)
}

fn human(found: &Found, start: Paging) -> String {
    let (Some(newest), Some(oldest)) = (found.jobs.first(), found.jobs.last()) else {
        return "no job matches\n".to_owned() + &found.not_counted.map(not_counted).unwrap_or_default();
    };
    let mut text = table(&found.jobs);
    if found.searched_to.is_some() && start.ascends() {
        text.push_str(&format!("\nthere may be newer jobs: --after {} is the next page\n", newest.id));
    } else if found.searched_to.is_some() {
        let page = format!("--before {} is the next page", oldest.id);
        text.push_str(&format!("\nthere may be older jobs: --limit shows more, {page}\n"));
    }
    text
}

/// What was not examined.
fn not_counted(NotCounted { searched_to, age }: NotCounted) -> String {
    let age = duration::human(age);
    format!(
        "\nat the last count of all jobs, {age} ago, there was no job of this kind, so only newer jobs were searched: \
         --before {searched_to} searches the rest\n"
    )
}
