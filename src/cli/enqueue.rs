//! `enqueue`: enqueues one job of a kind that this program has.

use std::io::{self, Read as _};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use diesel_jobs_core::__private::nearest;
use diesel_jobs_core::{Enqueued, JobId, MAX_ARGS_BYTES, NewJob, Registration, Registry, RunAt};
use serde::Serialize;

use super::actor_args::Who;
use super::app::App;
use super::exit::{CliError, Exit};
use super::{database, duration, output, parse, waits};

#[derive(Debug, Args)]
pub(super) struct EnqueueArgs {
    /// The kind of the job, which this program must have
    kind: String,
    /// The arguments, as JSON; `-` reads them from standard input, so that other users of the machine do not see them
    #[arg(value_name = "ARGS", default_value = "{}")]
    args: String,
    /// Its queue [default: the kind's]
    #[arg(long, value_parser = parse::typed_name)]
    queue: Option<String>,
    /// Its priority [default: the kind's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse::priority)]
    priority: Option<i16>,
    /// How many attempts it has [default: as the kind says]
    #[arg(long, value_name = "N", value_parser = parse::attempts)]
    max_attempts: Option<u16>,
    /// When it is due, such as 2026-01-31 (midnight UTC) or 2026-01-31T08:00:00+01:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse::instant, conflicts_with = "delay")]
    run_at: Option<DateTime<Utc>>,
    /// After how long it is due, such as 10m
    #[arg(long = "in", value_name = "DURATION", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// A tag; may be given several times
    #[arg(long, value_parser = parse::typed_name)]
    tag: Vec<String>,
    #[command(flatten)]
    who: Who,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    id: JobId,
    kind: &'a str,
    queue: &'a str,
    /// `new`, or `existing` or `replaced` if another job has the unique key.
    result: &'static str,
}

/// A time is called past from here on. Somebody may have typed the present minute.
pub(super) const PAST: TimeDelta = TimeDelta::minutes(1);
/// How much of standard input is read: the longest arguments, and space around them.
const MOST_READ: u64 = 2 * MAX_ARGS_BYTES as u64;

pub(super) async fn enqueue(app: &App<'_>, args: &EnqueueArgs) -> Result<Exit, CliError> {
    let registry = Registry::linked();
    let registration = known(&args.kind, &registry)?;
    let job = job(registration, args)?;
    let actor = args.who.name(app)?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let warning = waits::warning(&*database.operator, &job.queue, Some(&job.kind), "the job waits").await?;
    let enqueued = database.operator.enqueue(std::slice::from_ref(&job), "enqueue", &actor).await?;
    let Some(enqueued) = enqueued.first() else {
        return Err(CliError::failed("the database did not say which job it has stored; look at `worker list`"));
    };
    let (result, said) = said(*enqueued, &job);
    let answer = Answer { id: enqueued.id(), kind: &job.kind, queue: &job.queue, result };
    let id = enqueued.id();
    output::print(app.json, &answer, || output::printable(&said) + "\n").map_err(|problem| {
        CliError::failed(format!("the job is stored as job {id}, so do not repeat the command: {problem}"))
    })?;
    if enqueued.is_new() {
        let is_past = args.run_at.is_some_and(|at| at < Utc::now() - PAST);
        let past = is_past.then(|| "warning: the time of --run-at is in the past, so the job is due now".to_owned());
        past.into_iter().chain(warning).for_each(|text| output::complain(&text));
    }
    Ok(Exit::Fine)
}

/// Makes the job. The text of a problem does not repeat values of the arguments.
fn job(registration: &Registration, given: &EnqueueArgs) -> Result<NewJob, CliError> {
    let args = arguments(&given.args)?;
    let wrong = |problem: String| {
        let text = format!("no job of kind `{}` can be made of this: {problem}; nothing was enqueued", given.kind);
        CliError::usage(output::printable(&text))
    };
    if args.trim().is_empty() {
        return Err(wrong("the arguments are empty; a kind without arguments takes `{}`".to_owned()));
    }
    // Two messages would be given for text that is no JSON. This one says where it ends.
    if let Err(problem) = serde_json::from_str::<serde::de::IgnoredAny>(&args) {
        let (line, column) = (problem.line(), problem.column());
        return Err(wrong(format!("the arguments are not JSON, from line {line}, column {column} on")));
    }
    let job = registration.job_by_hand(&args, |job| {
        job.queue = given.queue.clone().map_or_else(|| job.queue.clone(), Into::into);
        job.priority = given.priority.unwrap_or(job.priority);
        job.max_attempts = given.max_attempts.unwrap_or(job.max_attempts);
        job.run_at = given.run_at.map(RunAt::At).or(given.delay.map(RunAt::After)).unwrap_or(job.run_at);
        job.tags.clone_from(&given.tag);
    });
    job.map_err(wrong)
}

/// The arguments as JSON text.
fn arguments(given: &str) -> Result<String, CliError> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    io::stdin().lock().take(MOST_READ).read_to_string(&mut text).map_err(|error| {
        CliError::failed(format!("reading the arguments from standard input: {error}; nothing was enqueued"))
    })?;
    if text.len() as u64 == MOST_READ {
        return Err(CliError::usage(format!(
            "standard input has more than the {MAX_ARGS_BYTES} bytes that arguments may have; nothing was enqueued"
        )));
    }
    Ok(text.trim().to_owned())
}

/// Returns the job of this kind. Fails if this program has none, because only the program knows what the job takes.
pub(super) fn known<'a>(kind: &str, registry: &'a Registry) -> Result<&'a Registration, CliError> {
    registry.get(kind).ok_or_else(|| unknown(kind, registry))
}

fn unknown(kind: &str, registry: &Registry) -> CliError {
    let kinds = registry.kinds();
    let hint = match nearest(kind, kinds.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its kinds are: {}", kinds.join(", ")),
    };
    CliError::usage(output::printable(&format!("this program has no job of kind `{kind}`; {hint}")))
}

/// What the database did, as a word and as a sentence.
fn said(enqueued: Enqueued, NewJob { kind, queue, .. }: &NewJob) -> (&'static str, String) {
    if enqueued.is_new() {
        ("new", format!("enqueued job {enqueued} of kind `{kind}` in queue `{queue}`"))
    } else if enqueued.is_replaced() {
        ("replaced", format!("job {enqueued} of kind `{kind}` has the same unique key: it got what differs"))
    } else {
        ("existing", format!("job {enqueued} of kind `{kind}` has the same unique key, so nothing was enqueued"))
    }
}
