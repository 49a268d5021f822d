//! What new sessions did not find, might not use or could not do either. It is then no reason to close older ones. Also
//! which attempts run again because of it. All of it is forgotten after a minute.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel_jobs_core::Lease;

use super::stale::Missing;

/// If even a new session does not find or may not use something, this is no reason to close sessions for this long.
pub(super) const NO_SUSPICION: Duration = Duration::from_secs(60);

/// Of so many things this is known at most. While it is of so many, nothing that is missing is a reason to close
/// sessions, so that a kind whose jobs name ever new things cannot close them again and again.
pub(super) const MOST: usize = 8;

/// Attempts that run again are remembered up to this number. One that is forgotten may run again more often.
const MOST_SUSPICIONS: usize = 1000;

/// What sessions did not find or might not use.
#[derive(Default)]
pub(super) struct Suspicions(Mutex<Known>);

/// An attempt runs again, because its session did not find something.
struct Suspicion {
    lease: Lease,
    missing: Missing,
    since: Instant,
    /// The first generation whose sessions were all opened after that.
    from: u64,
}

/// The oldest comes first.
#[derive(Default)]
struct Known {
    /// Each with the time when a new session did not find it either.
    fruitless: Vec<(Missing, Instant)>,
    suspected: Vec<Suspicion>,
}

impl Suspicions {
    /// A new session does not find this either.
    pub(super) fn note(&self, missing: Missing, now: Instant) {
        let known = &mut self.known(now).fruitless;
        known.retain(|(other, _)| *other != missing);
        known.push((missing, now));
        let forgotten = known.len().saturating_sub(MOST);
        known.drain(..forgotten);
    }

    /// Whether new sessions would not find this either, or nothing is suspected at present.
    pub(super) fn are_fruitless(&self, missing: Missing, now: Instant) -> bool {
        let known = &self.known(now).fruitless;
        known.len() >= MOST || known.iter().any(|(other, _)| *other == missing)
    }

    /// This attempt runs again, because its session did not find this. Sessions of this generation are opened from now
    /// on.
    pub(super) fn suspect(&self, lease: Lease, missing: Missing, from: u64, now: Instant) {
        let known = &mut self.known(now).suspected;
        if known.iter().all(|one| (one.lease, one.missing) != (lease, missing)) {
            known.push(Suspicion { lease, missing, since: now, from });
            let forgotten = known.len().saturating_sub(MOST_SUSPICIONS);
            known.drain(..forgotten);
        }
    }

    /// Whether a session of this generation was opened after the attempt had failed because of the same. As it does not
    /// find it either, it is as good as a new one, whatever other jobs have done with it meanwhile.
    pub(super) fn had_arisen(&self, lease: Lease, missing: Missing, generation: u64, now: Instant) -> bool {
        let of_attempt = |one: &Suspicion| (one.lease, one.missing) == (lease, missing);
        self.known(now).suspected.iter().any(|one| of_attempt(one) && one.from <= generation)
    }

    fn known(&self, now: Instant) -> MutexGuard<'_, Known> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |since: &Instant| now.saturating_duration_since(*since) < NO_SUSPICION;
        known.fruitless.retain(|(_, since)| is_recent(since));
        known.suspected.retain(|one| is_recent(&one.since));
        known
    }
}
