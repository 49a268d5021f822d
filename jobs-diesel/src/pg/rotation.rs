//! When a connection is used no longer. All pools of one storage ask here, before they hand a connection out again, and
//! so do the heartbeat and the listener, which have connections of their own.
//!
//! - The file with the URL names another database.
//! - It has reached its age. So the memory of its server process is freed, and connections spread over servers again.
//! - Its session, or an older or equally old one, has gone stale ([`Stale`]). A change that makes one session stale
//!   makes all stale that are open at that time, so all of them are closed. They are one *generation*.
//! - Its server was a standby when it was opened, and the URL does not say that it may be one. It is used once: a
//!   primary that was demoted answers reads, so nothing else would end its use.
//!
//! Nothing is asked of the server, so that a job costs no round trip more.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diesel_jobs_core::Lease;
use tokio::sync::watch;

use super::stale::Stale;
use super::suspicions::Suspicions;

/// The age that no connection of a pool exceeds, unless it is in use or the program sets another one. Each has its own,
/// between four fifths of this and all of it, so that connections that were opened together are not closed together.
pub(super) const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// A longer lifetime means that connections have no age: no instant is so far away.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How often idle connections are looked through for those that have reached their age.
const SWEEP: Duration = Duration::from_secs(30);

/// A connection of a pool.
pub(crate) struct Pooled<C> {
    conn: C,
    generation: u64,
    closes_at: Instant,
    /// No transaction has ended on it yet.
    is_new: bool,
    is_unusable: bool,
}

impl<C> Pooled<C> {
    /// It was used, and is given back to its pool.
    pub(super) fn used(&mut self) {
        self.is_new = false;
    }

    /// Whether no transaction has ended on it yet.
    #[cfg(feature = "postgres-sync")]
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Keeps it out of its pool.
    pub(super) fn abandon(&mut self) {
        self.is_unusable = true;
    }
}

impl<C> Deref for Pooled<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.conn
    }
}

impl<C> DerefMut for Pooled<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.conn
    }
}

/// Shared by all connectors of one storage.
#[derive(Clone)]
pub(crate) struct Rotation {
    lifetime: Duration,
    state: Arc<State>,
}

struct State {
    /// Connections of earlier generations are used no longer.
    generation: watch::Sender<u64>,
    suspicions: Suspicions,
    swept: Mutex<(u64, Instant)>,
    /// How often new connections led to another database than those before.
    moves: AtomicU64,
    /// The server has refused a connection because there are too many, and no pool has given any back since.
    are_short: AtomicBool,
}

impl Rotation {
    pub(crate) fn new(lifetime: Duration) -> Self {
        let state = State {
            generation: watch::Sender::new(0),
            suspicions: Suspicions::default(),
            swept: Mutex::new((0, Instant::now())),
            moves: AtomicU64::new(0),
            are_short: AtomicBool::new(false),
        };
        Self { lifetime: lifetime.min(LONGEST), state: Arc::new(state) }
    }

    #[cfg(feature = "postgres-sync")]
    pub(super) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// The generation of connections whose opening begins now.
    pub(super) fn generation(&self) -> u64 {
        *self.state.generation.borrow()
    }

    /// Ends the generation if connections from now on lead to another database. All connections must lead to one.
    pub(super) fn follow(&self, moves: u64) {
        if self.state.moves.fetch_max(moves, Ordering::AcqRel) < moves {
            self.state.generation.send_modify(|generation| *generation += 1);
        }
    }

    /// Ends this generation, unless it has ended.
    pub(super) fn end(&self, generation: u64) {
        let next = |current: &mut u64| {
            let is_current = *current == generation;
            *current += u64::from(is_current);
            is_current
        };
        self.state.generation.send_if_modified(next);
    }

    /// How often new connections have led to another database than those before.
    pub(super) fn moves(&self) -> u64 {
        self.state.moves.load(Ordering::Acquire)
    }

    /// A connection that was just opened. Its opening began in this generation.
    pub(super) fn opened<C>(&self, conn: C, generation: u64) -> Pooled<C> {
        let closes_at = Instant::now() + self.lifetime.mul_f64(rand::random_range(0.8..1.0));
        Pooled { conn, generation, closes_at, is_new: true, is_unusable: false }
    }

    /// Whether a connection may be handed out again.
    pub(super) fn keeps<C>(&self, pooled: &Pooled<C>, now: Instant) -> bool {
        self.is_current(pooled) && now < pooled.closes_at
    }

    /// Whether a connection has not gone stale, however old it is.
    pub(super) fn is_current<C>(&self, pooled: &Pooled<C>) -> bool {
        !pooled.is_unusable && pooled.generation == self.generation()
    }

    /// Decides what follows from an error on a connection. Returns whether the work should be done again on another
    /// one, because this one and all older ones have gone stale.
    pub(super) fn is_stale<C>(&self, pooled: &mut Pooled<C>, stale: Option<Stale>) -> bool {
        self.is_stale_for(None, pooled, stale)
    }

    /// The same for an error of the attempt under this lease. A new session cannot be stale. Other jobs may use each
    /// new session first, so one that was opened after an earlier run of the attempt has failed is not stale either. So
    /// this comes to an end.
    pub(super) fn is_stale_for<C>(&self, lease: Option<Lease>, pooled: &mut Pooled<C>, stale: Option<Stale>) -> bool {
        let Some(stale) = stale else { return false };
        let (now, current) = (Instant::now(), self.generation());
        match stale {
            Stale::Perhaps(missing) => {
                let suspicions = &self.state.suspicions;
                let has_failed = |lease| suspicions.had_arisen(lease, missing, pooled.generation, now);
                if pooled.is_new || lease.is_some_and(has_failed) {
                    suspicions.note(missing, now);
                    return false;
                }
                if pooled.generation == current && suspicions.are_fruitless(missing, now) {
                    return false;
                }
                if let Some(lease) = lease {
                    suspicions.suspect(lease, missing, current + 1, now);
                }
            }
            Stale::Standby | Stale::Outdated if pooled.is_new => {
                // Where it leads, others may lead elsewhere.
                pooled.is_unusable = true;
                return false;
            }
            Stale::Standby | Stale::Outdated => {}
        }
        pooled.is_unusable = true;
        // Of several connections that fail at the same time, one ends the generation.
        self.end(pooled.generation);
        true
    }

    /// Records that the server has refused a connection because there are too many. The idle connections of another
    /// pool may be the reason.
    pub(super) fn connections_are_short(&self) {
        self.state.are_short.store(true, Ordering::Release);
    }

    /// Whether connections are short. Says so once.
    pub(super) fn were_connections_short(&self) -> bool {
        self.state.are_short.swap(false, Ordering::AcqRel)
    }

    /// Waits until this connection may not be used again.
    pub(super) async fn until_over<C>(&self, pooled: &Pooled<C>) {
        let mut generations = self.state.generation.subscribe();
        tokio::select! {
            () = tokio::time::sleep_until(pooled.closes_at.into()) => {}
            _ = generations.wait_for(|generation| *generation != pooled.generation) => {}
        }
    }

    /// Whether the idle connections must be looked through now: a generation has ended, or the last time is long ago.
    /// Says so once.
    pub(super) fn is_sweep_due(&self, now: Instant) -> bool {
        let generation = self.generation();
        let mut swept = self.state.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, at) = *swept;
        let is_due = of != generation || now.saturating_duration_since(at) >= SWEEP.min(self.lifetime);
        if is_due {
            *swept = (generation, now);
        }
        is_due
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
