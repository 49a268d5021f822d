//! The oracle: looks at one run, all at rest, and names what broke. A pure function from rows to violations.
//!
//! One rule per guarantee, each in its own file. A rule that finds nothing in a broken run is worse than none: the tests
//! beside it break a good run in every way and expect exactly that objection.

mod rules;
mod story;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::HashMap;

use crate::history::{Effect, Enqueued, Event, Failure, Job, Record};
pub use story::story;
pub use violation::{Kind, Violation};

/// What a run promises beyond what every run does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promise {
    /// One worker, one slot, all jobs there before it began: they start in the order of their keys.
    pub in_order: bool,
    /// Nothing crashed: no attempt is consumed but by the handlers' own failures.
    pub no_attempt_consumed: bool,
    /// The database crashed. The commit of a claim does not wait for the disk, so that a crash may forget it; the product
    /// grants the same lease number again then, to an attempt beside the one that lost its claim. Accepted only where none
    /// of the two had begun before the crash, and in two workers: the lease names its worker.
    pub claims_may_be_forgotten: bool,
}

/// One run by number: what the rules look at.
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

/// Everything in this run that must not be.
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

    /// Each job as the product stores it, with what the application knows of it.
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
