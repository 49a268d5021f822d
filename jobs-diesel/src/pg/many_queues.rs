//! Claims of a worker that serves many queues. Each statement names only some of them.

use std::collections::HashSet;
use std::time::Duration;

use diesel_jobs_core::storage::{Claim, Wanted};

use super::slow_queries::SlowQueries;

/// How many queues one claim names. A queue costs a claim about as much as a job does.
pub(crate) const AT_ONCE: usize = 64;
/// While it is unknown which queues have jobs, the worker claims from the next queues after this time.
pub(crate) const NEXT_QUEUES: Duration = Duration::from_millis(20);

/// Which queues the next claim names.
#[derive(Debug, Default)]
pub(crate) struct ManyQueues {
    next: usize,
    /// The queries for the queues that have jobs.
    pub(crate) queries: SlowQueries,
}

impl ManyQueues {
    /// The queues that the next claim names, in rotation. If it is known which queues have jobs, only those are named.
    /// The queues of a claim with a limit of all together are in rotation already; after a claim without jobs, the next
    /// one begins with others nevertheless.
    pub(crate) fn some_of(&mut self, claim: &Claim, live: Option<&HashSet<String>>) -> Claim {
        let mut wanted: Vec<&Wanted> = all_of(claim, live).collect();
        if wanted.len() > AT_ONCE {
            let first = self.next % wanted.len();
            wanted.rotate_left(first);
            wanted.truncate(AT_ONCE);
            self.next = first + AT_ONCE;
        }
        Claim { wanted: wanted.into_iter().cloned().collect(), ..claim.clone_without_wanted() }
    }

    /// A queue got a job. If the queues take turns, the next claim names them in their order.
    pub(crate) fn got_jobs(&mut self, claim: &Claim) {
        if claim.most.is_some() {
            self.next = 0;
        }
    }
}

/// The queues that have jobs, if that is known; otherwise all.
pub(crate) fn all_of<'a>(claim: &'a Claim, live: Option<&'a HashSet<String>>) -> impl Iterator<Item = &'a Wanted> {
    claim.wanted.iter().filter(move |wanted| live.is_none_or(|live| live.contains(wanted.queue.as_ref())))
}

#[cfg(test)]
mod tests {
    use diesel_jobs_core::WorkerId;

    use super::*;

    fn claim(queues: usize) -> Claim {
        let wanted = (0..queues).map(|queue| Wanted::new(format!("q{queue:03}"), 1)).collect();
        Claim::new(WorkerId::generate(), wanted, [])
    }

    fn names(claim: &Claim) -> Vec<&str> {
        claim.wanted.iter().map(|wanted| wanted.queue.as_ref()).collect()
    }

    #[test]
    fn every_queue_has_its_turn() {
        let (claim, mut many) = (claim(AT_ONCE * 2 + 5), ManyQueues::default());
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let some = many.some_of(&claim, None);
            assert_eq!(some.wanted.len(), AT_ONCE);
            seen.extend(names(&some).into_iter().map(str::to_owned));
        }
        assert_eq!(seen.len(), claim.wanted.len());
    }

    #[test]
    fn only_queues_with_jobs_are_named() {
        let live = HashSet::from(["q007".to_owned(), "q900".to_owned()]);
        assert_eq!(names(&ManyQueues::default().some_of(&claim(100), Some(&live))), ["q007"]);
    }

    #[test]
    fn queues_that_take_turns_keep_their_order_while_they_get_jobs() {
        let (mut many, claim) = (ManyQueues::default(), Claim { most: Some(1), ..claim(AT_ONCE + 1) });
        let live = claim.wanted.iter().map(|wanted| wanted.queue.to_string()).collect();
        for _ in 0..2 {
            assert_eq!(names(&many.some_of(&claim, Some(&live)))[0], "q000");
            many.got_jobs(&claim);
        }
        many.some_of(&claim, Some(&live));
        // No job of these queues could be claimed.
        let last = format!("q{AT_ONCE:03}");
        assert_eq!(names(&many.some_of(&claim, Some(&live)))[0], last);
    }
}
