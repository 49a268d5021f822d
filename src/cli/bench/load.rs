//! The jobs of the load: one that does nothing, and one that tells when it was picked up. They are in the registry of
//! the load's own workers only; a program's own workers do not know them.

use diesel_jobs_core::__private::{decode, handle};
use diesel_jobs_core::{Handle, Handled, Handler, Job, JobContext, JobOptions, Outcome, Registered, Registration};
use serde::{Deserialize, Serialize};

use super::line::{Line, now, say};

/// The queue of the jobs that do nothing.
pub(super) const LOAD: &str = "load";

/// The queue of the probes: of their own, so that they wait for a worker and not for the jobs before them.
pub(super) const PROBES: &str = "probes";

/// Does nothing, with arguments as small as most jobs have: what is measured is all but the work itself.
#[derive(Serialize, Deserialize)]
pub(super) struct Noop {
    id: i64,
    name: String,
}

impl Noop {
    pub(super) fn new(id: i64) -> Self {
        Self { id, name: "hello".to_owned() }
    }
}

impl Job for Noop {
    const KIND: &'static str = "noop";
    const OPTIONS: JobOptions = JobOptions::new().queue(LOAD);
}

impl Handle for Noop {
    async fn handle(self, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

impl Registered for Noop {
    const REGISTRATION: Registration = registration::<Self>("Noop");
}

/// Says that it was picked up, and when.
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

const fn registration<J: Handle>(type_name: &'static str) -> Registration {
    Registration {
        kind: J::KIND,
        type_name,
        location: file!(),
        options: J::OPTIONS,
        handler: Handler::Async(|ctx| handle::<J>(ctx, decode::<J>)),
        schedule: None,
        states: &[],
        connection: None,
    }
}
