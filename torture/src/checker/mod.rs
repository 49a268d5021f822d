//! The checker: examines the record of a run after all work has ended, and returns what was violated. It is a pure
//! function from rows to violations.
//!
//! Each guarantee has one rule, in a file of its own. A rule that finds nothing in a broken run is worse than no rule.
//! So the tests break a good run in every way, and expect exactly the matching violation.

mod rules;
mod story;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::HashMap;

use crate::history::{Effect, Enqueued, Event, Failure, Job, Record};
pub use story::story;
pub use violation::{Kind, Violation};

/// What a run guarantees in addition to what every run guarantees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promise {
    /// The run has one worker with one slot, and all jobs were enqueued before it started. So they start in the order
    /// of their keys.
    pub in_order: bool,
    /// Nothing crashed. Only the handlers' own failures consume attempts.
    pub no_attempt_consumed: bool,
    /// The database crashed. The commit of a claim does not wait for the disk, so a crash can undo it. The product then
    /// assigns the same lease number again, while the attempt that lost its claim may still run. This is accepted only
    /// if neither attempt started before the crash, and only if they run in two processes: a lease also names its
    /// worker.
    pub claims_may_be_forgotten: bool,
}

/// One run, its rows grouped by job number, as the rules read it.
#[derive(Debug)]
struct Run<'a> {
    promise: Promise,
    record: &'a Record,
    enqueued: HashMap<i64, &'a Enqueued>,
    jobs: HashMap<i64, Vec<&'a Job>>,
    events: HashMap<i64, Vec<&'a Event>>,
    effects: HashMap<i64, Vec<&'a Effect>>,
    failures: HashMap<i64, Vec<&'a Failure>>,
}

/// Returns all violations in this run.
pub fn check(record: &Record, promise: Promise) -> Vec<Violation> {
    let run = Run::new(record, promise);
    rules::ALL.iter().flat_map(|rule| rule(&run)).collect()
}

fn grouped<T>(rows: &[T], key: impl Fn(&T) -> i64) -> HashMap<i64, Vec<&T>> {
    let mut groups = HashMap::<_, Vec<_>>::new();
    for row in rows {
        groups.entry(key(row)).or_default().push(row);
    }
    groups
}

impl<'a> Run<'a> {
    fn new(record: &'a Record, promise: Promise) -> Self {
        Self {
            promise,
            record,
            enqueued: record.enqueued.iter().map(|row| (row.number, row)).collect(),
            jobs: grouped(&record.jobs, |job| job.number),
            events: grouped(&record.events, |event| event.number),
            effects: grouped(&record.effects, |effect| effect.number),
            failures: grouped(&record.failures, |failure| failure.job),
        }
    }

    /// Returns each stored job together with the application's record of its enqueue. Jobs without such a record are
    /// left out.
    fn known(&self) -> impl Iterator<Item = (&'a Enqueued, &'a Job)> {
        self.record.jobs.iter().filter_map(|job| Some((*self.enqueued.get(&job.number)?, job)))
    }

    fn events(&self, number: i64) -> &[&'a Event] {
        self.events.get(&number).map_or(&[], Vec::as_slice)
    }

    fn effects(&self, number: i64) -> &[&'a Effect] {
        self.effects.get(&number).map_or(&[], Vec::as_slice)
    }

    fn failures(&self, job: &Job) -> &[&'a Failure] {
        self.failures.get(&job.id).map_or(&[], Vec::as_slice)
    }
}
