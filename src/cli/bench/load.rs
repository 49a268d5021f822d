//! The jobs of the load test: one that does nothing, and one that reports when it was picked up. Only the registry of
//! the test's own workers contains them. The program's other workers do not know these kinds.

use std::time::Duration;

use diesel_jobs_core::__private::handle;
use diesel_jobs_core::{
    Handle, Handled, Handler, Job, JobContext, JobError, JobOptions, Outcome, Registered, Registration,
};
use serde::{Deserialize, Serialize};

use super::line::{Line, now, say};
use super::shape::Shape;

/// The queue of the jobs that do nothing.
pub(super) const LOAD: &str = "load";

/// The queue of the probes. It is a separate queue, so that a probe waits for a worker and not for the jobs before it.
pub(super) const PROBES: &str = "probes";

/// A job that does nothing unless options ask for a sleep or a failure. Its arguments are as small as those of most
/// jobs. So the test measures everything except the work itself.
#[derive(Serialize, Deserialize)]
pub(super) struct Noop {
    id: i64,
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    work_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    fails: bool,
}

/// The bytes of the arguments without the letters of `name`.
const FRAME: usize = r#"{"id":1,"name":""}"#.len();
const NAME: &str = "hello";

impl Noop {
    /// Returns the job with this number.
    pub(super) fn new(number: u64, shape: &Shape) -> Self {
        let letters = shape.args.saturating_sub(FRAME).max(NAME.len());
        Self {
            id: 1,
            name: NAME.chars().cycle().take(letters).collect(),
            work_ms: u64::try_from(shape.work.as_millis()).unwrap_or(u64::MAX),
            fails: shape.fails(number),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Job for Noop {
    const KIND: &'static str = "noop";
    const OPTIONS: JobOptions = JobOptions::new().queue(LOAD);
}

impl Handle for Noop {
    async fn handle(self, ctx: JobContext) -> Handled {
        if self.work_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.work_ms)).await;
        }
        if self.fails && ctx.attempt() == 1 {
            return Err(JobError::msg("asked to fail"));
        }
        Ok(Outcome::Complete)
    }
}

impl Registered for Noop {
    const REGISTRATION: Registration = registration::<Self>("Noop");
}

/// Reports that it was picked up, and when.
#[derive(Serialize, Deserialize)]
pub(super) struct Probe {
    pub(super) number: usize,
}

impl Job for Probe {
    const KIND: &'static str = "probe";
    const OPTIONS: JobOptions = JobOptions::new().queue(PROBES);
}

impl Handle for Probe {
    async fn handle(self, _: JobContext) -> Handled {
        say(Line::Picked { number: self.number, at: now() });
        Ok(Outcome::Complete)
    }
}

impl Registered for Probe {
    const REGISTRATION: Registration = registration::<Self>("Probe");
}

const fn registration<J: Handle + Registered>(type_name: &'static str) -> Registration {
    Registration {
        kind: J::KIND,
        type_name,
        location: file!(),
        options: J::OPTIONS,
        handler: Handler::Async(|ctx| handle::<J>(ctx)),
        schedule: None,
        states: &[],
        connection: None,
        decodes: |ctx| J::decode(ctx).map(drop),
        version: 1,
        earlier: &[],
        aliases: &[],
        on_discarded: None,
    }
}
