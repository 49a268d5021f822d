//! `list`: one row per job, without its arguments.

use diesel_jobs_core::JobRecord;
use diesel_jobs_core::storage::JobFilter;
use serde::Serialize;

use super::app::App;
use super::command_args::ListArgs;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

/// A job without its arguments. Only `show` prints them.
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

pub(super) async fn list(app: &App<'_>, args: ListArgs) -> Result<Exit, CliError> {
    let filter = JobFilter {
        states: args.state.into_iter().collect(),
        queues: args.queue.into_iter().collect(),
        kinds: args.kind.into_iter().collect(),
        ..JobFilter::default()
    };
    let jobs = database::open(app.url()?, database::NO_HANDLERS).await?.operator.list_all(&filter, args.limit).await?;
    let rows: Vec<Row<'_>> = jobs.iter().map(Row::from).collect();
    output::print(app.json, &rows, || human(&jobs, args.limit))?;
    Ok(Exit::Fine)
}

fn human(jobs: &[JobRecord], limit: usize) -> String {
    if jobs.is_empty() {
        return "no job matches\n".to_owned();
    }
    let mut table = Table::new(&[
        ("ID", Align::Right),
        ("STATE", Align::Left),
        ("QUEUE", Align::Left),
        ("KIND", Align::Left),
        ("PRIORITY", Align::Right),
        ("ATTEMPT", Align::Right),
        ("RUN AT", Align::Left),
        ("FINISHED AT", Align::Left),
    ]);
    for job in jobs {
        table.row([
            job.id.to_string(),
            job.state.to_string(),
            job.queue.clone(),
            job.kind.clone(),
            job.priority.to_string(),
            format!("{}/{}", job.attempt, job.max_attempts),
            output::time(job.run_at),
            job.finished_at.map(output::time).unwrap_or_default(),
        ]);
    }
    let mut text = table.render();
    if jobs.len() == limit {
        text.push_str(&format!("\nthe newest {limit}; --limit shows more\n"));
    }
    text
}
