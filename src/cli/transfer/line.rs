//! A job as a line of JSON.

use chrono::{DateTime, Utc};
use diesel_jobs_core::{JobRecord, JobRule, JobState, NewJob, Rules, RunAt};
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
}

/// The line of a job. Fails if the stored arguments are no JSON, which only a change by hand can cause.
pub(super) fn write(job: &JobRecord, args: &Arguments) -> serde_json::Result<String> {
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

/// Reads a line. `None`: it is left out. The text says what is wrong.
pub(super) fn read(line: &[u8], others: Others) -> Result<Option<NewJob>, String> {
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
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_a_kind_and_arguments_only() {
        let job = read(br#"{"kind":"charge","args":{"card":1e2, "x":"\u0041"}}"#, Others::Refuse).unwrap().unwrap();
        assert_eq!(
            (&*job.kind, &*job.queue, job.args.as_str()),
            ("charge", "default", r#"{"card":1e2, "x":"\u0041"}"#)
        );
        let line =
            br#"{"id":7,"kind":"a","queue":"mail","state":"scheduled","priority":-3,"attempt":2,"max_attempts":4,
            "run_at":"2026-01-31T08:00:00Z","enqueued_at":"x","tags":["vip"],"args":null,"last_error":"no"}"#;
        let job = read(line, Others::Refuse).unwrap().unwrap();
        assert_eq!((&*job.queue, job.priority, job.max_attempts, job.tags.len()), ("mail", -3, 4, 1));
        assert!(matches!(job.run_at, RunAt::At(_)));
        let line =
            br#"{"kind":"a","args":{},"rules":[{"name":"stripe","key":"[7]","rule":{"concurrency":{"most":3}}}]}"#;
        let rules = read(line, Others::Refuse).unwrap().unwrap().rules;
        assert_eq!((&*rules[0].name, &*rules[0].key, rules[0].rule.most()), ("stripe", "[7]", Some(3)));
    }

    #[test]
    fn a_hostile_line_is_refused_with_the_reason() {
        let rule = |name: &str, key: &str, rule: &str| {
            format!(r#"{{"kind":"a","args":{{}},"rules":[{{"name":"{name}","key":"{key}","rule":{rule}}}]}}"#)
        };
        let deep = format!(r#"{{"kind":"a","args":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let large = format!(r#"{{"kind":"a","args":"{}"}}"#, "x".repeat(300_000));
        for (line, part) in [
            ("", "not an object"),
            ("no json", "not an object"),
            (r#"["a",{}]"#, "not an object"),
            ("{", "EOF"),
            ("{kind", "key must be a string"),
            (r#"{"kind":"a"}"#, "missing field `args`"),
            (r#"{"args":{}}"#, "missing field `kind`"),
            (r#"{"kind":"a","args":{},"prioriy":1}"#, "unknown field `prioriy`"),
            (r#"{"kind":"a","kind":"b","args":{}}"#, "duplicate field"),
            (r#"{"kind":"a","args":{},"priority":99999}"#, "99999"),
            (r#"{"kind":"a","args":{},"max_attempts":0}"#, "max_attempts must be from 1"),
            (r#"{"kind":"a","args":{},"run_at":"soon"}"#, "column"),
            (r#"{"kind":"","args":{}}"#, "is empty"),
            (r#"{"kind":"a\u0000","args":{}}"#, "NUL"),
            (r#"{"kind":"a","args":{"x":"\ud800"}}"#, "args: "),
            (r#"{"kind":"a","args":{}} {}"#, "trailing characters"),
            (r#"{"kind":"a","args":{},"state":"completed"}"#, "--others skip"),
            (r#"{"kind":"a","args":{},"state":"dead"}"#, "unknown variant"),
            (r#"{"kind":"a","args":{},"redacted":true}"#, "secret arguments"),
            (&rule("l", "[]", r#"{"concurrency":{"most":0}}"#), "rules: a limit allows 1 to"),
            (&rule("", "[]", r#"{"concurrency":{"most":1}}"#), "rules: the name"),
            (&rule("l", "", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
            (&rule("l", "seven", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
            (&rule("l", "{}", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
            (&rule("l", "[1.0]", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
            (&rule("l", "sha256:7", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
            (&rule("l", "[]", r#"{"concurrency":{"most":1,"max":2}}"#), "unknown field `max`"),
            (&rule("l", "[]", r#"{"rate":{"limit":1,"per":60000000,"burst":1,"bust":2}}"#), "unknown field `bust`"),
            (&rule("l", "[]", r#"{"concurrency":{"most":1}},"x":2"#), "unknown field `x`"),
            (&rule("l", "[]", r#"{"limit":{"most":1}}"#), "unknown variant `limit`"),
            (r#"{"kind":"a","args":{},"rules":{}}"#, "expected a sequence"),
            (&deep, "recursion limit"),
            (&large, "the limit is"),
        ] {
            let problem = read(line.as_bytes(), Others::Refuse).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("line 1"), "{part}: {problem}");
        }
        assert!(read(b"{\"kind\":\"\xff\",\"args\":1}", Others::Refuse).is_err());
        assert_eq!(read(br#"{"kind":"a","args":{},"state":"completed"}"#, Others::Skip), Ok(None));
        assert!(read(br#"{"kind":"a","args":{},"state":"completed"}"#, Others::Enqueue).unwrap().is_some());
    }
}
