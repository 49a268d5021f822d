//! The output of `schedules list` and `schedules show`.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{LastRun, ScheduleRecord};
use diesel_jobs_core::{Registry, Schedule};
use serde::Serialize;

use super::super::output;
use super::ticks::{self, Tick};

/// A schedule, and what follows from it.
#[derive(Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    record: ScheduleRecord,
    next: Vec<Tick>,
    /// Why it does not tick at all, or stands still.
    problem: Option<String>,
    /// Whether the code of this program neither declares it nor has an operator added it.
    stale: bool,
}

impl Shown {
    pub(super) fn new(record: ScheduleRecord, now: DateTime<Utc>) -> Self {
        let (next, problem) = match Schedule::parse(&record.expression, &record.timezone) {
            Ok(schedule) => {
                (ticks::next(&schedule, record.last_tick, now), Schedule::stands_still(record.last_tick, now))
            }
            Err(problem) => (Vec::new(), Some(problem.to_string())),
        };
        let is_declared =
            Registry::linked().get(&record.kind).is_some_and(|registration| registration.schedule.is_some());
        let stale = record.added_by.is_none() && record.name == record.kind && !is_declared;
        Self { record, next, problem, stale }
    }
}

pub(super) fn list(shown: &[Shown]) -> String {
    if shown.is_empty() {
        return "no schedules\n".to_owned();
    }
    shown.iter().map(show).collect::<Vec<_>>().join("\n")
}

pub(super) fn show(Shown { record, next, problem, stale }: &Shown) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name:<14}{}", output::printable(&value));
    };
    line("schedule", record.name.clone());
    line("kind", record.kind.clone());
    line("cron", format!("{} in {}", record.expression, record.timezone));
    if record.timezone != "UTC" {
        line("zone rules", format!("IANA {} of this program", Schedule::ZONE_RULES));
    }
    line("catch up", record.catch_up.to_string());
    line("last run", record.last_run.map_or_else(|| "never".to_owned(), last_run));
    if let Some(pause) = &record.paused {
        line("paused", pause.to_string());
    }
    if let Some(by) = &record.added_by {
        line("added by", by.clone());
    }
    if let Some(by) = &record.changed_by {
        let at = record.changed_at.map(|at| format!(" at {}", output::time(at))).unwrap_or_default();
        line("changed by", format!("{by}{at}"));
    }
    if let Some(declared) = &record.declared {
        line(
            "in the code",
            format!("{} in {}, catch up {}", declared.expression, declared.timezone, declared.catch_up),
        );
    }
    for (name, value) in [
        ("arguments", record.job.args.clone()),
        ("queue", record.job.queue.clone()),
        ("priority", record.job.priority.map(|priority| priority.to_string())),
        ("max attempts", record.job.max_attempts.map(|most| most.to_string())),
    ] {
        if let Some(value) = value {
            line(name, value);
        }
    }
    if *stale {
        line("stale", "the code of this program does not declare it; it ticks only if another program does".to_owned());
    }
    if record.newer {
        line("newer", "it uses a feature of a later version of this program, and does not tick here".to_owned());
    }
    if let Some(problem) = problem {
        line("problem", problem.clone());
    }
    for (place, tick) in next.iter().enumerate() {
        line(if place == 0 { "next ticks" } else { "" }, tick.text());
    }
    text
}

fn last_run(LastRun { job, at, state }: LastRun) -> String {
    let at = output::time(at);
    match state {
        Some(state) => format!("{at}, job {job}, which is {state}"),
        None => format!("{at}, job {job}, which has been deleted since"),
    }
}
