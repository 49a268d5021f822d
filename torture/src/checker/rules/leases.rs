//! One lease: no two attempts run under the same one. Whoever relies on its number (the fencing token) relies on that.

use std::collections::HashMap;

use crate::checker::{Kind, Run, Violation};

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let mut starts = HashMap::<_, Vec<_>>::new();
    for event in run.record.events.iter().filter(|event| event.what == "start") {
        starts.entry((event.number, event.lease)).or_default().push(event);
    }
    starts.retain(|_, events| events.len() > 1);
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
