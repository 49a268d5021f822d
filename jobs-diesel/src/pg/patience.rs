//! How long a declaration or a tick waits for what other sessions have locked. Many of them may wait for the same
//! transaction, one after the other. So after the first one that has waited in vain, the others of the round hardly
//! wait.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use diesel::result::Error;

use crate::meaning::conflict;

/// This ends the wait for a lock. The transactions of most applications are shorter.
const LONG: &str = "set local lock_timeout = '1s'";
/// The same after a wait in vain.
const SHORT: &str = "set local lock_timeout = '20ms'";
/// What has failed is tried again after five seconds. If that fails as well, the others need not wait for long either.
const IMPATIENT: Duration = Duration::from_secs(10);

/// Whether something has waited in vain lately.
#[derive(Debug, Default)]
pub(crate) struct Patience(Mutex<Option<Instant>>);

impl Patience {
    /// The statement that limits how long the others of its transaction wait.
    pub(crate) fn limit(&self) -> &'static str {
        let waited = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waited.is_some_and(|at| at.elapsed() < IMPATIENT) { SHORT } else { LONG }
    }

    /// Says why such a transaction has failed, if a lock was not available. That is no outage of the database, and the
    /// server does not say which lock it was.
    pub(crate) fn explained(&self, error: Error, reason: &str) -> Error {
        if conflict::of_statement(&error) != Some(conflict::LOCK) {
            return error;
        }
        let mut waited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A short wait in vain makes the others no less patient.
        if waited.is_none_or(|at| at.elapsed() >= IMPATIENT) {
            *waited = Some(Instant::now());
        }
        Error::QueryBuilderError(format!("{error}: {reason}; `worker doctor` names the oldest transaction").into())
    }
}

#[cfg(test)]
mod tests {
    use diesel::result::DatabaseErrorKind;

    use super::*;

    #[test]
    fn only_the_first_of_those_that_wait_in_vain_waits_long() {
        let patience = Patience::default();
        let said = |text: &str| Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(text.to_owned()));
        let refused = patience.explained(said("value too long for type character varying(3)"), "locked");
        assert!(matches!(refused, Error::DatabaseError(..)));
        assert_eq!(patience.limit(), LONG);
        let locked = patience.explained(said("canceling statement due to lock timeout"), "its row is locked");
        assert!(locked.to_string().contains("lock timeout: its row is locked; `worker doctor`"), "{locked}");
        assert_eq!(patience.limit(), SHORT);
    }
}
