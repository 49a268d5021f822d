//! The log of due jobs that no live worker runs: once a minute for each problem.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::storage::Finding;
use crate::telemetry;

/// The same problem is logged once in this time.
const AGAIN: Duration = Duration::from_secs(60);

/// When each problem was logged. A problem is known by what repairs it, because the number of its jobs changes.
#[derive(Default)]
pub(super) struct Logged(HashMap<String, Instant>);

impl Logged {
    pub(super) fn say(&mut self, problems: &[Finding], now: Instant) {
        problems.iter().filter(|problem| self.is_due(&problem.repair, now)).for_each(telemetry::unserved);
    }

    fn is_due(&mut self, problem: &str, now: Instant) -> bool {
        self.0.retain(|_, at| now.duration_since(*at) < AGAIN);
        let is_due = !self.0.contains_key(problem);
        if is_due {
            self.0.insert(problem.to_owned(), now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_logged_once_a_minute() {
        let (mut logged, start) = (Logged::default(), Instant::now());
        let mut is_due = |problem, seconds| logged.is_due(problem, start + Duration::from_secs(seconds));
        assert!(is_due("mail", 0) && is_due("slow", 1));
        assert!(!is_due("mail", 59) && !is_due("slow", 60));
        assert!(is_due("mail", 60) && is_due("slow", 61) && !is_due("mail", 62));
    }
}
