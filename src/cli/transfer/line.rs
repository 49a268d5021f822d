//! A job as a line of JSON.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::KeyOfJob;
use diesel_jobs_core::{JobRecord, JobRule, JobState, NewJob, Rules, RunAt, UniqueKey, UniqueProblem, Until};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::redact::Arguments;

/// A job as `export` writes it.
#[derive(Serialize)]
pub(super) struct Written<'a> {
    id: i64,
    kind: &'a str,
    queue: &'a str,
    state: JobState,
    priority: i16,
    attempt: u16,
    max_attempts: u16,
    run_at: DateTime<Utc>,
    enqueued_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<DateTime<Utc>>,
    tags: &'a [String],
    /// The stored text, unchanged: JSON parsers round some numbers.
    args: &'a RawValue,
    /// The values of secret arguments are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rules: &'a [JobRule],
    #[serde(flatten)]
    beside: &'a Beside,
}

/// What is stored beside the row of a job.
#[derive(Default, Serialize)]
pub(super) struct Beside {
    /// The unique key, if the job has it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unique_key: Option<KeyOfJob>,
    /// When it expires, if its first attempt has not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_by: Option<DateTime<Utc>>,
}

/// The line of a job. Fails if the stored arguments are no JSON, which only a change by hand can cause.
pub(super) fn write(job: &JobRecord, args: &Arguments, beside: &Beside) -> serde_json::Result<String> {
    let line = Written {
        id: job.id.0,
        kind: &job.kind,
        queue: &job.queue,
        state: job.state,
        priority: job.priority,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        run_at: job.run_at,
        enqueued_at: job.enqueued_at,
        finished_at: job.finished_at,
        tags: &job.tags,
        args: serde_json::from_str(&args.json)?,
        redacted: args.are_redacted,
        last_error: job.last_error.as_deref(),
        rules: &job.rules,
        beside,
    };
    serde_json::to_string(&line).map(|line| line + "\n")
}

/// A job as `import` reads it. Only `kind` and `args` are needed. A field with a wrong name is refused, because it
/// would be lost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read<'a> {
    kind: String,
    #[serde(borrow)]
    args: &'a RawValue,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    run_at: Option<DateTime<Utc>>,
    tags: Option<Vec<String>>,
    state: Option<JobState>,
    redacted: Option<bool>,
    rules: Option<Vec<JobRule>>,
    unique_key: Option<ReadKey>,
    start_by: Option<DateTime<Utc>>,
    // What an imported job does not keep.
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "attempt")]
    _attempt: Option<IgnoredAny>,
    #[serde(rename = "enqueued_at")]
    _enqueued_at: Option<IgnoredAny>,
    #[serde(rename = "finished_at")]
    _finished_at: Option<IgnoredAny>,
    #[serde(rename = "last_error")]
    _last_error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadKey {
    name: String,
    key: String,
    #[serde(default)]
    until_started: bool,
    until: Option<DateTime<Utc>>,
    /// An exported key is in effect.
    #[serde(rename = "in_effect")]
    _in_effect: Option<IgnoredAny>,
}

impl ReadKey {
    /// `None`: its time is over.
    fn at(self, now: DateTime<Utc>) -> Result<Option<UniqueKey>, UniqueProblem> {
        let within = self.until.map(|until| (until - now).to_std().unwrap_or_default());
        if within.is_some_and(|within| within.is_zero()) {
            return Ok(None);
        }
        let until = if self.until_started { Until::Started } else { Until::Finished };
        UniqueKey::written(self.name, self.key, until, within).map(Some)
    }
}

/// What `import` does with a job that did not wait when it was exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum Others {
    /// Import nothing, and name the line
    Refuse,
    /// Leave the line out
    Skip,
    /// Enqueue it like a job that waits
    Enqueue,
}

/// Reads a line. `None`: it is left out. The text says what is wrong. `now` is the time of the database.
pub(super) fn read(line: &[u8], others: Others, now: DateTime<Utc>) -> Result<Option<NewJob>, String> {
    // serde would also read a struct from a list, by the order of the fields.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("it is not an object of JSON, which begins with `{`".to_owned());
    }
    let read: Read<'_> = serde_json::from_slice(line).map_err(|problem| said(&problem))?;
    if let Some(state) = read.state.filter(|state| !state.is_waiting()) {
        match others {
            Others::Refuse => {
                return Err(format!(
                    "the job is {state}; --others skip leaves such jobs out, --others enqueue enqueues them again"
                ));
            }
            Others::Skip => return Ok(None),
            Others::Enqueue => {}
        }
    }
    if read.redacted == Some(true) {
        return Err(format!(
            "the export left out secret arguments of the kind {:?}; write them into the line, and remove `redacted`",
            read.kind
        ));
    }
    let args = read.args.get();
    // More than the syntax: a value that is nested too deeply, or has half of a character, could not be read by a
    // handler.
    serde_json::from_str::<serde_json::Value>(args).map_err(|problem| format!("args: {}", said(&problem)))?;
    let mut job = NewJob::raw(read.kind, args);
    job.queue = read.queue.map_or(job.queue, Into::into);
    job.priority = read.priority.unwrap_or(job.priority);
    job.max_attempts = read.max_attempts.unwrap_or(job.max_attempts);
    job.run_at = read.run_at.map_or(job.run_at, RunAt::At);
    job.tags = read.tags.unwrap_or_default();
    job.rules = Rules::new(read.rules.unwrap_or_default()).map_err(|problem| format!("rules: {problem}"))?;
    let unique =
        read.unique_key.map(|key| key.at(now)).transpose().map_err(|problem| format!("unique_key: {problem}"))?;
    job.unique = unique.flatten().map(Box::new);
    // A job whose time is over is cancelled after the import, as it would have been without it.
    let due = read.run_at.map_or(now, |at| at.max(now));
    job.expires = read.start_by.map(|at| (at - due).to_std().unwrap_or_default().max(Duration::from_millis(1)));
    job.validate().map_err(|problem| problem.to_string())?;
    Ok(Some(job))
}

/// The problem without its line, which is always the first one.
fn said(problem: &serde_json::Error) -> String {
    let text = problem.to_string();
    match text.rfind(" at line ") {
        Some(end) => format!("{} (column {})", &text[..end], problem.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
