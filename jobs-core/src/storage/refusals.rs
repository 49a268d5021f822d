//! For how long the server has refused the credentials of a worker. Connections that are open continue to work, so the
//! worker is useless only when no operation succeeds any more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::storage_error::StorageError;

/// Whether the operations of a worker fail because the server refuses its credentials.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Option<Lasting>>);

/// Refusals with no successful operation between them.
struct Lasting {
    first: Instant,
    newest: Instant,
    problem: StorageError,
}

impl Refusals {
    /// Records how an operation ended that may have opened a connection.
    pub(super) fn observe(&self, error: Option<&StorageError>, now: Instant) {
        match error {
            Some(problem @ StorageError::Credentials(_)) => {
                let (mut lasting, problem) = (self.lasting(), problem.repeated());
                let first = lasting.as_ref().map_or(now, |lasting| lasting.first);
                *lasting = Some(Lasting { first, newest: now, problem });
            }
            // No connection was opened, and the credentials may be right or wrong.
            Some(StorageError::Unavailable(_) | StorageError::Config(_)) => {}
            _ => *self.lasting() = None,
        }
    }

    /// The newest refusal, if the refusals have lasted for this long.
    pub(crate) fn lasting_for(&self, limit: Duration) -> Option<StorageError> {
        let lasting = self.lasting();
        let lasting = lasting.as_ref().filter(|lasting| lasting.newest.duration_since(lasting.first) >= limit);
        lasting.map(|lasting| lasting.problem.repeated())
    }

    fn lasting(&self) -> MutexGuard<'_, Option<Lasting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    fn refused() -> Option<StorageError> {
        Some(StorageError::Credentials("password authentication failed".into()))
    }

    /// Whether the refusals last after operations that ended so, each at a second.
    fn lasts(ends: &[(u64, Option<StorageError>)]) -> bool {
        let (refusals, start) = (Refusals::default(), Instant::now());
        for (second, end) in ends {
            refusals.observe(end.as_ref(), start + Duration::from_secs(*second));
        }
        refusals.lasting_for(LIMIT).is_some()
    }

    #[test]
    fn refusals_last_from_the_first_to_the_newest() {
        assert!(lasts(&[(7, refused()), (100, refused()), (307, refused())]));
        assert!(!lasts(&[(7, refused()), (306, refused())]));
        assert!(!lasts(&[(7, refused())]), "one refusal has no duration");
    }

    #[test]
    fn an_operation_that_succeeds_or_that_the_database_answers_ends_them() {
        assert!(!lasts(&[(0, refused()), (200, None), (400, refused())]));
        let answer = || Some(StorageError::Refused("no such column".into()));
        assert!(!lasts(&[(0, refused()), (200, answer()), (400, refused())]));
    }

    #[test]
    fn an_operation_without_a_connection_says_nothing_about_them() {
        let silent = || Some(StorageError::Unavailable("no connection within 10 s".into()));
        assert!(lasts(&[(0, refused()), (200, silent()), (300, refused())]));
        assert!(!lasts(&[(0, refused()), (400, silent())]));
    }
}
