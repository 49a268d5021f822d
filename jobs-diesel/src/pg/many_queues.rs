//! Claims of a worker that serves many queues. Each statement names only some of them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use diesel_jobs_core::storage::{Claim, Wanted};

/// How many queues one claim names. A queue costs a claim about as much as a job does.
pub(crate) const AT_ONCE: usize = 64;
/// The query for the queues that have jobs is slow if it takes longer than this.
const SLOW: Duration = Duration::from_millis(20);
/// After this many slow answers in a row, the worker no longer asks. Fewer may be chance, or a new connection.
const IN_A_ROW: u32 = 3;
/// How long the worker then does not ask.
const BLIND: Duration = Duration::from_secs(10);
/// While the worker does not ask which queues have jobs, it claims from other queues after this time.
pub(crate) const NEXT_QUEUES: Duration = Duration::from_millis(20);

/// Which queues the next claim names.
#[derive(Debug, Default)]
pub(crate) struct ManyQueues {
    next: usize,
    slow: u32,
    blind_until: Option<Instant>,
}

impl ManyQueues {
    /// Whether to ask which queues have jobs.
    pub(crate) fn asks(&self, now: Instant) -> bool {
        self.blind_until.is_none_or(|until| now >= until)
    }

    /// Records how long the answer took.
    pub(crate) fn asked(&mut self, took: Duration, now: Instant) {
        self.slow = if took > SLOW { self.slow.saturating_add(1) } else { 0 };
        self.blind_until = (self.slow >= IN_A_ROW).then(|| now + BLIND);
    }

    /// The queues that the next claim names, in rotation. If it is known which queues have jobs, only those are named.
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
    fn who_gets_no_quick_answer_does_not_ask_for_a_while() {
        let (mut many, now) = (ManyQueues::default(), Instant::now());
        for _ in 0..IN_A_ROW {
            assert!(many.asks(now));
            many.asked(SLOW * 2, now);
        }
        assert!(!many.asks(now + BLIND / 2));
        assert!(many.asks(now + BLIND));
        many.asked(SLOW * 2, now + BLIND);
        assert!(!many.asks(now + BLIND), "it is as slow as before");
        many.asked(SLOW, now + BLIND * 2);
        many.asked(SLOW * 2, now + BLIND * 2);
        assert!(many.asks(now + BLIND * 2), "once is not in a row");
    }
}
