//! Order: higher priority first, then the earlier `run_at`, then the smaller id. Checked only if the run promises this
//! order.

use crate::checker::{Kind, Run, Violation};

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    if !run.promise.in_order {
        return Vec::new();
    }
    let started = |number| run.events(number).iter().find(|event| event.what == "start").map(|event| event.at);
    let mut jobs: Vec<_> = run.known().filter_map(|(_, job)| Some((started(job.number)?, job))).collect();
    jobs.sort_by_key(|(at, _)| *at);
    let key = |job: &crate::history::Job| (std::cmp::Reverse(job.priority), job.run_at, job.id);
    let early = |pair: &[(_, &crate::history::Job)]| match pair {
        [(_, first), (_, second)] if key(first) > key(second) => {
            let what = format!("it started before number {}, which is better", second.number);
            Some(Violation::new(Kind::Order, first.number, what))
        }
        _ => None,
    };
    jobs.windows(2).filter_map(early).collect()
}
