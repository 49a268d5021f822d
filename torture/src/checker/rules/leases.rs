//! One lease: no two attempts run under the same one. Whoever relies on its number (the fencing token) relies on that.

use std::collections::{HashMap, HashSet};

use chrono::TimeDelta;

use crate::checker::{Kind, Run, Violation};
use crate::history::{CRASH, Event};

/// What was said during a crash is written when the server is back, and it comes back within this time.
const BACK: TimeDelta = TimeDelta::seconds(10);

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let mut starts = HashMap::<_, Vec<_>>::new();
    for event in run.record.events.iter().filter(|event| event.what == "start") {
        starts.entry((event.number, event.lease)).or_default().push(event);
    }
    starts.retain(|(number, _), events| {
        events.len() > 1
            && !(run.promise.claims_may_be_forgotten && forgotten(run, events))
            && !is_run_again(run, *number, events)
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

/// Whether one process ran a transactional attempt again that another transaction was in the way of: nothing of the run before was
/// committed, which the effects show.
fn is_run_again(run: &Run<'_>, number: i64, starts: &[&Event]) -> bool {
    let transactional = run.enqueued.get(&number).is_some_and(|enqueued| enqueued.transactional);
    transactional && starts.windows(2).all(|pair| (pair[0].pid, pair[0].worker) == (pair[1].pid, pair[1].worker))
}

/// Whether all of these began soon after a crash of the database, each in another process: a claim that somebody had begun
/// on is not forgotten, because what its handler said is on the disk, and the claim before it; and a worker that is
/// granted a lease which it holds goes on with what it does.
fn forgotten(run: &Run<'_>, starts: &[&Event]) -> bool {
    let processes: HashSet<_> = starts.iter().map(|start| start.pid).collect();
    if processes.len() < starts.len() {
        return false;
    }
    let mut crashes = run.record.faults.iter().filter(|fault| fault.what == CRASH);
    starts.first().is_some_and(|first| crashes.any(|crash| crash.at < first.at && first.at - crash.at < BACK))
}
