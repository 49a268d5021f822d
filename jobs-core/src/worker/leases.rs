//! The leases this process holds: counted for the drain, cancelled together when they are lost.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::lease::{Lease, WorkerId};

#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Lease, CancellationToken>>,
    emptied: Notify,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, HashMap<Lease, CancellationToken>> {
        // Nothing panics while it is held; and a map of tokens cannot be half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a lease until [`end`](Self::end); the token fires when it is lost.
    pub(crate) fn begin(&self, lease: Lease) -> CancellationToken {
        let lost = CancellationToken::new();
        self.lock().insert(lease, lost.clone());
        lost
    }

    /// The lease was finished, or refused.
    pub(crate) fn end(&self, lease: &Lease) {
        let mut held = self.lock();
        held.remove(lease);
        if held.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// What is held now.
    pub(crate) fn held(&self) -> Vec<Lease> {
        self.lock().keys().copied().collect()
    }

    /// This lease is lost.
    pub(crate) fn lose_one(&self, lease: &Lease) {
        if let Some(lost) = self.lock().get(lease) {
            lost.cancel();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// All leases of this worker id are lost. Returns how many.
    pub(crate) fn lose(&self, worker: WorkerId) -> usize {
        let held = self.lock();
        let lost = held.iter().filter(|(lease, _)| lease.worker == worker);
        lost.map(|(_, token)| token.cancel()).count()
    }

    /// Waits until no lease is held.
    pub(crate) async fn none_held(&self) {
        loop {
            let emptied = self.emptied.notified();
            let mut emptied = std::pin::pin!(emptied);
            // Registered before the look: an end in between is not missed.
            emptied.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            emptied.await;
        }
    }
}
