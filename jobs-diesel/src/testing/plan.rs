//! What a drain was asked for, and why it leaves a job.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::fits;
use diesel_jobs_core::{JobRecord, Layers, Registry, States, flags};

/// What a drain was asked for.
pub(super) struct Plan {
    pub(super) registry: Option<Registry>,
    pub(super) states: States,
    pub(super) layers: Layers,
    pub(super) kinds: Vec<&'static str>,
    pub(super) queues: Vec<String>,
    pub(super) limit: usize,
    pub(super) skip_time: bool,
    pub(super) fail_fast: bool,
    pub(super) once: bool,
    pub(super) time_limit: Option<Duration>,
}

impl Plan {
    /// Why the drain does not run this job at all.
    pub(super) fn left_out(&self, job: &JobRecord, registry: &Registry) -> Option<String> {
        if !self.kinds.is_empty() && !self.kinds.contains(&job.kind.as_str()) {
            return Some("its kind was not asked for".to_owned());
        }
        if !self.queues.is_empty() && !self.queues.iter().any(|name| fits(name, &job.queue)) {
            return Some("its queue was not asked for".to_owned());
        }
        if !flags::are_known(job.flags) {
            return Some("it uses a feature of a later version".to_owned());
        }
        registry.get(&job.kind).is_none().then(|| "this program has no handler for its kind".to_owned())
    }

    /// Why the drain has not run this waiting job.
    pub(super) fn why(&self, job: &JobRecord, registry: &Registry, now: DateTime<Utc>, over: bool) -> String {
        if let Some(why) = self.left_out(job, registry) {
            return why;
        }
        let wait = (job.run_at - now).as_seconds_f64();
        if wait > 0.0 && !self.skip_time {
            return format!("it is due in {wait:.1} s; `skip_time` runs it now");
        }
        match over {
            true if self.fail_fast => "an attempt failed before it".to_owned(),
            true => format!("the limit of {} attempts is reached", self.limit),
            false => "it was enqueued or put back after the drain began, and `once` leaves it".to_owned(),
        }
    }
}
