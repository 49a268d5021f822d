//! `show`: prints one job in full. Only `show` and `export` print arguments, because the user has asked for these jobs.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{HaltedSequence, KeyOfJob, LimitSetting, keyed};
use diesel_jobs_core::{
    AttemptError, AttemptRecord, FailureKind, Freeze, JobId, JobRecord, JobRule, JobState, Output, Progress, Registry,
    Rule, flags, indented_json, period_text,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::app::App;
use super::exit::{CliError, Exit};
use super::list::Row;
use super::output::{self, printable, time};
use super::pauses::{self, Paused};
use super::{attempts, database, redact, stats};

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: Row<'a>,
    /// The stored text, unchanged: JSON parsers round some numbers, and a program may need them exactly.
    args: Option<&'a RawValue>,
    /// What the handler returned, as it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a RawValue>,
    /// Why the output was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_note: Option<&'a str>,
    /// What the handler has reported last.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// Each attempt that is known, oldest first.
    attempts: &'a [AttemptRecord],
    errors: &'a [AttemptError],
    /// Its unique key.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<KeyOfJob>,
    /// When it expires, if its first attempt has not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_by: Option<DateTime<Utc>>,
    /// The sequence that it halts, because it was discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    halts: Option<HaltedSequence>,
    /// What operators have set for its limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits_set: Vec<LimitSetting>,
    /// Only set if the freeze keeps this job from being claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<Freeze>,
    /// The pauses that keep this job from being claimed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paused: Vec<Paused>,
}

pub(super) async fn show(app: &App<'_>, id: i64, backtraces: bool) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let Some((job, errors)) = database.operator.show(JobId(id)).await? else {
        return Err(CliError::failed(format!(
            "there is no job {id}; it may have been pruned, `list` names those kept"
        )));
    };
    let output = match job.state {
        JobState::Completed => database.operator.end(JobId(id)).await?.and_then(|end| end.output),
        _ => None,
    };
    let progress = database.operator.progress(JobId(id)).await?;
    let registry = Registry::linked();
    let args = redact::arguments(&registry, &job).json;
    let is_unique = job.flags & flags::UNIQUE != 0;
    let unique_key = if is_unique { database.operator.unique_key(JobId(id)).await? } else { None };
    let names: BTreeSet<String> = job.rules.iter().map(|rule| rule.name.clone()).collect();
    let mut limits_set = if names.is_empty() { Vec::new() } else { database.operator.limit_settings().await? };
    limits_set.retain(|setting| names.contains(&setting.name));
    // The job may have been pruned since.
    let attempts = database.operator.attempts(JobId(id)).await?.unwrap_or_default();
    let waits = !job.state.is_finished() && job.state != JobState::Running;
    let frozen = if waits { database.storage.check_schema().await?.frozen } else { None };
    let paused = if waits { pauses::of_job(&*database.operator, &job.queue, &job.kind).await? } else { Vec::new() };
    let expires = waits && job.flags & flags::EXPIRES != 0;
    let may_halt = job.state == JobState::Discarded && job.flags & flags::SEQUENCE != 0;
    let around =
        if expires || may_halt { database.operator.surroundings(JobId(id)).await? } else { Default::default() };
    let shown = Shown {
        job: Row::from(&job),
        args: serde_json::from_str(&args).ok(),
        output: output.as_ref().and_then(Output::json).and_then(|json| serde_json::from_str(json).ok()),
        output_note: output.as_ref().and_then(Output::note),
        progress,
        unique_key,
        start_by: around.start_by,
        halts: around.halts,
        limits_set,
        attempts: &attempts,
        errors: &errors,
        frozen,
        paused,
    };
    output::print(app.json, &shown, || {
        shown.frozen.as_ref().map(stats::frozen).unwrap_or_default()
            + &pauses::text(&shown.paused)
            + &human(&shown, &job, &registry, &args, output.as_ref())
            + &history(&attempts, &errors, backtraces)
    })?;
    Ok(Exit::Fine)
}

fn human(shown: &Shown<'_>, job: &JobRecord, registry: &Registry, args: &str, output: Option<&Output>) -> String {
    let mut lines = vec![
        ("id", job.id.to_string()),
        ("kind", job.kind.clone()),
        ("queue", job.queue.clone()),
        ("state", job.state.to_string()),
        ("priority", job.priority.to_string()),
        ("attempt", format!("{} of {}", job.attempt, job.max_attempts) + &given_up(shown, job)),
    ];
    if job.crashes > 0 {
        lines.push(("crashes", job.crashes.to_string()));
    }
    if !job.tags.is_empty() {
        lines.push(("tags", job.tags.join(", ")));
    }
    lines.extend(job.rules.iter().map(|of_job| rule(of_job, &shown.limits_set)));
    let rule = registry.get(&job.kind).and_then(|kind| kind.options.unique);
    lines.extend(shown.unique_key.as_ref().map(|key| ("unique key", key.text(rule))));
    lines.push(("enqueued at", time(job.enqueued_at)));
    lines.push(("run at", time(job.run_at)));
    lines.extend(shown.halts.as_ref().map(|halts| {
        let line = format!(
            "`{}`, {}: {}; `worker why {}` says what to do",
            halts.name,
            keyed(&halts.key),
            halts.waiting_text(),
            job.id
        );
        ("halts", line)
    }));
    lines.extend(shown.start_by.map(|at| ("expires at", time(at))));
    lines.extend(job.claimed_at.map(|at| ("claimed at", time(at))));
    lines.extend(job.finished_at.map(|at| ("finished at", time(at))));
    lines.extend(job.worker.map(|worker| ("worker", worker.to_string())));
    lines.extend(shown.progress.as_ref().map(|progress| {
        let Progress { done, total, message, at } = progress;
        ("progress", format!("{done} of {total} at {}: {message}", time(*at)))
    }));

    let mut text: String = lines.iter().map(|(name, value)| format!("{name:<11}  {}\n", printable(value))).collect();
    text.push_str("\nargs\n");
    text.push_str(&indented(&indented_json(args)));
    if let Some(output) = output {
        text.push_str("\noutput\n");
        let shown = output.json().map(indented_json).or_else(|| output.note().map(|note| format!("({note})")));
        text.push_str(&indented(&shown.unwrap_or_default()));
    }
    text
}

/// Why a job that was discarded had no further attempt, although it had some left.
fn given_up(Shown { errors, .. }: &Shown<'_>, job: &JobRecord) -> String {
    let has_left = job.state == JobState::Discarded && (1..job.max_attempts).contains(&job.attempt);
    match errors.last().filter(|last| has_left && last.actor.is_none()).map(|last| last.kind) {
        Some(FailureKind::Undecodable) => {
            format!("; there are no more, because its arguments cannot be read: see `worker why {}`", job.id)
        }
        Some(FailureKind::Error) => "; there are no more, as its last error says".to_owned(),
        _ => String::new(),
    }
}

/// The attempts as a table, and then the failures in full.
fn history(attempts: &[AttemptRecord], errors: &[AttemptError], backtraces: bool) -> String {
    let table = attempts::table(attempts);
    let mut text = if table.is_empty() { table } else { format!("\nattempts\n{}", indented(&table)) };
    errors.iter().for_each(|error| text.push_str(&failure(error, backtraces)));
    text
}

fn failure(error: &AttemptError, backtraces: bool) -> String {
    let (attempt, at, kind) = (error.attempt, time(error.at), error.kind);
    let mut text = match (&error.actor, kind) {
        (Some(actor), FailureKind::Cancelled) => format!("\ncancelled at {at} by {}", printable(actor)),
        _ if attempt == 0 => format!("\nended before its first attempt at {at} ({kind})"),
        (_, FailureKind::Killed) => format!("\nattempt {attempt} was released at {at} ({kind})"),
        _ => format!("\nattempt {attempt} failed at {at} ({kind})"),
    };
    text.extend(error.started_at.map(|at| format!(", claimed at {}", time(at))));
    text.extend(error.worker.map(|worker| format!(" by worker {worker}")));
    text.push('\n');
    text.push_str(&indented(&error.message));
    text.extend(error.place.as_ref().map(|place| format!("  at {}\n", printable(place))));
    match &error.backtrace {
        Some(backtrace) if backtraces => text.push_str(&indented(backtrace)),
        Some(_) => text.push_str("  (`--backtraces` prints its backtrace)\n"),
        None => {}
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {}\n", printable(line))).collect()
}

/// A rule of the job: the name of its line, and what it says.
fn rule(JobRule { name, key, rule, tenant, .. }: &JobRule, set: &[LimitSetting]) -> (&'static str, String) {
    let (keyed, on_full) = (keyed(key), rule.on_full().shown());
    match *rule {
        Rule::Concurrency { most, .. } => {
            let set = set.iter().find(|set| set.name == *name).map(|set| format!("; {set}")).unwrap_or_default();
            let tenant = tenant.as_ref().map(|tenant| format!(", tenant {tenant}")).unwrap_or_default();
            ("limit", format!("{most} at once of `{name}`, {keyed}{tenant}{set}{on_full}"))
        }
        Rule::Rate { limit, per, burst, .. } => {
            let per = period_text(per);
            let text = format!(
                "`{name}`, {keyed}: {limit} may start in {per}, and up to {burst} at once after a quiet time{on_full}"
            );
            ("rate", text)
        }
        _ => ("sequence", format!("`{name}`, {keyed}")),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn a_job_that_ended_before_its_first_attempt_has_no_attempt_that_failed() {
        let ended = |attempt| AttemptError {
            attempt,
            kind: FailureKind::Cancelled,
            message: "it expired".to_owned(),
            worker: None,
            started_at: None,
            at: DateTime::UNIX_EPOCH,
            fingerprint: None,
            place: None,
            backtrace: None,
            actor: None,
        };
        let text = failure(&ended(0), false);
        assert!(text.starts_with("\nended before its first attempt at 1970-01-01 00:00:00Z (cancelled)\n"), "{text}");
        assert!(failure(&ended(1), false).starts_with("\nattempt 1 failed at "));
    }
}
