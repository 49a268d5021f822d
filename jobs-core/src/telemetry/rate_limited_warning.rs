//! A warning that is logged at most once in ten seconds, although its operation fails more often.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::warn;

/// Logs the failures of an operation, at most one line in ten seconds. Each line has the number of failures that were
/// not logged before it.
pub(crate) struct RateLimitedWarning {
    operation: &'static str,
    last: Mutex<Option<(Instant, u64)>>,
}

impl RateLimitedWarning {
    const INTERVAL: Duration = Duration::from_secs(10);

    pub(crate) const fn new(operation: &'static str) -> Self {
        Self { operation, last: Mutex::new(None) }
    }

    pub(crate) fn report(&self, problem: &dyn std::fmt::Display) {
        let operation = self.operation;
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &mut *last {
            Some((at, silent)) if at.elapsed() < Self::INTERVAL => *silent += 1,
            _ => {
                let silent = last.map_or(0, |(_, silent)| silent);
                warn!(
                    target: "diesel_jobs", { storage.operation = operation,
                    storage.silent_failures = silent }, "{operation} failed and is tried again: {problem}");
                *last = Some((Instant::now(), 0));
            }
        }
    }
}
