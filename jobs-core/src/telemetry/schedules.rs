//! The events of schedules.

use std::fmt::Display;

use chrono::{DateTime, Utc};
use tracing::{debug, error, info, warn};

pub(crate) fn ticked(name: &str, jobs: usize) {
    debug!(target: "diesel_jobs", { schedule.name = name, schedule.jobs = jobs }, "schedule {name}: enqueued {jobs}");
}

pub(crate) fn ticks_missed(name: &str, first: DateTime<Utc>) {
    info!(target: "diesel_jobs", { schedule.name = name }, "schedule {name}: its ticks since {first} were missed, and create no jobs (catch_up = \"skip\")");
}

pub(crate) fn schedule_stands_still(name: &str, why: &str) {
    warn!(target: "diesel_jobs", { schedule.name = name }, "schedule {name}: {why}. `worker doctor` prints the statement that lets it go on");
}

pub(crate) fn schedule_unusable(name: &str, problem: &dyn Display) {
    error!(target: "diesel_jobs", { schedule.name = name }, "schedule {name} does not tick: {problem}");
}
