//! The leases this process holds: counted for the drain, and told together when they are lost or the worker stops.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::lease::{Lease, WorkerId};

#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<Held>,
    emptied: Notify,
}

#[derive(Default)]
struct Held {
    leases: HashMap<Lease, Mark>,
    /// The worker asks its handlers to stop.
    stopping: bool,
}

struct Mark {
    /// Fires when the attempt should stop, whatever the reason.
    token: CancellationToken,
    lost: bool,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it is held; and a map of tokens cannot be half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds leases until [`end`](Self::end); each one's token fires when its attempt should stop.
    pub(crate) fn begin(&self, leases: impl Iterator<Item = Lease>) -> Vec<CancellationToken> {
        let mut held = self.lock();
        let stopping = held.stopping;
        leases
            .map(|lease| {
                let token = CancellationToken::new();
                if stopping {
                    token.cancel();
                }
                held.leases.insert(lease, Mark { token: token.clone(), lost: false });
                token
            })
            .collect()
    }

    /// These leases were finished, or refused.
    pub(crate) fn end<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>) {
        let mut held = self.lock();
        for lease in leases {
            held.leases.remove(lease);
        }
        if held.leases.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// What is held now.
    pub(crate) fn held(&self) -> Vec<Lease> {
        self.lock().leases.keys().copied().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().leases.len()
    }

    /// Whether this lease is known to be lost.
    pub(crate) fn is_lost(&self, lease: &Lease) -> bool {
        self.lock().leases.get(lease).is_none_or(|mark| mark.lost)
    }

    /// This lease is lost.
    pub(crate) fn lose_one(&self, lease: &Lease) {
        if let Some(mark) = self.lock().leases.get_mut(lease) {
            mark.lost = true;
            mark.token.cancel();
        }
    }

    /// All leases of this worker id are lost. Returns how many.
    pub(crate) fn lose(&self, worker: WorkerId) -> usize {
        let mut held = self.lock();
        let lost = held.leases.iter_mut().filter(|(lease, _)| lease.worker == worker);
        lost.map(|(_, mark)| {
            mark.lost = true;
            mark.token.cancel();
        })
        .count()
    }

    /// Asks all handlers to stop, now and from now on.
    pub(crate) fn stop_all(&self) {
        let mut held = self.lock();
        held.stopping = true;
        held.leases.values().for_each(|mark| mark.token.cancel());
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
