//! What new sessions did not find or might not use. It is then no reason to close older ones. All of it is forgotten
//! after a minute.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stale::Missing;

/// If even a new session does not find or may not use something, this is no reason to close sessions for this long.
pub(super) const NO_SUSPICION: Duration = Duration::from_secs(60);

/// Of so many things this is known at most. While it is of so many, nothing that is missing is a reason to close
/// sessions, so that a kind whose jobs name ever new things cannot close them again and again.
pub(super) const MOST: usize = 8;

/// Each with the time when a new session did not find it. The oldest comes first.
#[derive(Default)]
pub(super) struct Suspicions(Mutex<Vec<(Missing, Instant)>>);

impl Suspicions {
    /// A new session does not find this either.
    pub(super) fn note(&self, missing: Missing, now: Instant) {
        let mut known = self.known(now);
        known.retain(|(other, _)| *other != missing);
        known.push((missing, now));
        let forgotten = known.len().saturating_sub(MOST);
        known.drain(..forgotten);
    }

    /// Whether new sessions would not find this either, or nothing is suspected at present.
    pub(super) fn are_fruitless(&self, missing: Missing, now: Instant) -> bool {
        let known = self.known(now);
        known.len() >= MOST || known.iter().any(|(other, _)| *other == missing)
    }

    fn known(&self, now: Instant) -> MutexGuard<'_, Vec<(Missing, Instant)>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, since)| now.saturating_duration_since(*since) < NO_SUSPICION);
        known
    }
}
