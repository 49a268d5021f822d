//! One lease: no two attempts run under the same lease. Code that uses the lease number as a fencing token depends on
//! that.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use crate::checker::{Kind, Run, Violation};
use crate::history::{CRASH, Event};

/// What a handler reports during a crash is stored when the server is back. The server is back within this time.
const BACK: TimeDelta = TimeDelta::seconds(10);

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let mut starts = HashMap::<_, Vec<_>>::new();
    for event in run.record.events.iter().filter(|event| event.what == "start") {
        starts.entry((event.number, event.lease)).or_default().push(event);
    }
    starts.retain(|(number, _), events| {
        events.len() > 1 && !forgotten(run, events) && !is_run_again(run, *number, events)
    });
    let twice = starts.into_iter().map(|((number, lease), events)| {
        let by: Vec<String> = events.iter().map(|event| format!("process {}", event.pid)).collect();
        Violation::new(
            Kind::SharedLease,
            number,
            format!("attempts of {} started under lease {lease}", by.join(" and ")),
        )
    });
    twice.collect()
}

/// Whether one process ran a transactional attempt again after a conflict with another transaction. Nothing of the
/// earlier run was committed; the rule `effects` checks that.
fn is_run_again(run: &Run<'_>, number: i64, starts: &[&Event]) -> bool {
    let transactional = run.enqueued.get(&number).is_some_and(|enqueued| enqueued.transactional);
    transactional && starts.windows(2).all(|pair| (pair[0].pid, pair[0].worker) == (pair[1].pid, pair[1].worker))
}

/// Whether all of these attempts started soon after a crash of the database, each in another process. If an
/// attempt started before the crash, the crash cannot undo its claim: the handler's event is on the disk, and the claim
/// was committed before it. If a worker receives a lease that it already holds, it continues its
/// attempt and starts no second one.
fn forgotten(run: &Run<'_>, starts: &[&Event]) -> bool {
    let processes: HashSet<_> = starts.iter().map(|start| start.pid).collect();
    if processes.len() < starts.len() {
        return false;
    }
    starts.first().is_some_and(|first| undone_by(run, first).is_some())
}

/// When the database crashed so shortly before this was said that the crash may have undone the claim.
pub(super) fn undone_by(run: &Run<'_>, said: &Event) -> Option<DateTime<Utc>> {
    let mut crashes = run.record.faults.iter().filter(|fault| fault.what == CRASH).map(|crash| crash.at);
    crashes.find(|crash| run.promise.claims_may_be_forgotten && *crash < said.at && said.at - *crash < BACK)
}
