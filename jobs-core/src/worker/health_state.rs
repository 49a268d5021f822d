//! The state for the health checks of a worker, besides its heartbeat. It says whether the claim loop is stuck, and
//! whether the worker is registered in a database that it can reach. The claim loop ticks at each step, and while it
//! waits for anything except a statement. So a long wait for jobs does not make it look stuck, and a statement that
//! does not return does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The time between two ticks while the claim loop waits for something that may take long.
const TICK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct HealthState {
    /// When the worker had registered for the first time.
    started: OnceLock<Instant>,
    /// Cancelled at the first tick of the claim loop.
    claims: CancellationToken,
    /// The last tick of the claim loop, in milliseconds since the start.
    last_tick_ms: AtomicU64,
    /// The database knows this process under its current id, and serves the schema that this program needs.
    registered: AtomicBool,
    /// The last heartbeat was answered.
    reached: AtomicBool,
    /// A poll has failed since the last heartbeat.
    doubted: Notify,
}

impl HealthState {
    /// The worker is registered in the database.
    pub(crate) fn registered(&self) {
        self.started.get_or_init(Instant::now);
        self.reached.store(true, Ordering::Release);
        self.registered.store(true, Ordering::Release);
    }

    /// The worker was declared dead, and is not registered again yet.
    pub(crate) fn not_registered(&self) {
        self.registered.store(false, Ordering::Release);
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Acquire)
    }

    /// Whether the last heartbeat was answered.
    pub(crate) fn heartbeat(&self, answered: bool) {
        self.reached.store(answered, Ordering::Release);
    }

    /// A poll has failed. The next heartbeat says whether the database can be reached, and is due now.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Waits until a poll fails.
    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    /// The time since the worker has started. `None` before that.
    pub(crate) fn uptime(&self) -> Option<Duration> {
        self.started.get().map(Instant::elapsed)
    }

    /// The claim loop has made a step.
    pub(crate) fn tick(&self) {
        self.claims.cancel();
        let now = self.uptime().unwrap_or_default();
        self.last_tick_ms.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Is cancelled once the claim loop has begun.
    pub(crate) fn claims(&self) -> &CancellationToken {
        &self.claims
    }

    /// The time since the last step of the claim loop.
    pub(crate) fn since_tick(&self) -> Duration {
        let last = Duration::from_millis(self.last_tick_ms.load(Ordering::Acquire));
        self.uptime().unwrap_or_default().saturating_sub(last)
    }

    /// Waits for something that is no statement and may take long. The claim loop counts as alive meanwhile.
    pub(crate) async fn ticking<T>(&self, wait: impl Future<Output = T>) -> T {
        self.ticking_every(TICK, wait).await
    }

    async fn ticking_every<T>(&self, tick: Duration, wait: impl Future<Output = T>) -> T {
        let mut wait = std::pin::pin!(wait);
        loop {
            self.tick();
            tokio::select! {
                biased;
                done = &mut wait => {
                    self.tick();
                    return done;
                }
                () = tokio::time::sleep(tick) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_wait_keeps_the_claim_loop_alive() {
        let state = HealthState::default();
        state.registered();
        let ticks_again = async {
            state.last_tick_ms.store(u64::MAX, Ordering::Release);
            while state.last_tick_ms.load(Ordering::Acquire) == u64::MAX {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        state.ticking_every(Duration::from_millis(1), ticks_again).await;
        assert!(state.since_tick() < Duration::from_secs(60));
    }
}
