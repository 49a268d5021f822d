//! When a connection is used no longer. All pools of one storage ask here, before they hand a connection out again, and
//! so do the heartbeat and the listener, which have connections of their own.
//!
//! - The file with the URL names another database.
//! - It has reached its age. So the memory of its server process is freed, and connections spread over servers again.
//! - Its session, or an older or equally old one, has gone stale ([`Stale`]). A change that makes one session stale
//!   makes all stale that are open at that time, so all of them are closed. They are one *generation*.
//!
//! Nothing is asked of the server, so that a job costs no round trip more.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::settings::Fact;
use super::stale::Stale;
use super::suspicions::Suspicions;

/// The age that no connection of a pool exceeds, unless it is in use. Each has its own, between four fifths of this and
/// all of it, so that connections that were opened together are not closed together.
pub(super) const LIFETIME: Duration = Duration::from_secs(30 * 60);

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
    #[cfg(feature = "postgres-sync")]
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
    /// The server's messages are translated, so they do not say what is stale.
    translated: Fact,
}

struct State {
    /// Connections of earlier generations are used no longer.
    generation: AtomicU64,
    suspicions: Suspicions,
    swept: Mutex<(u64, Instant)>,
    /// How often new connections led to another database than those before.
    moves: AtomicU64,
}

impl Rotation {
    pub(crate) fn new(lifetime: Duration) -> Self {
        let state = State {
            generation: AtomicU64::new(0),
            suspicions: Suspicions::default(),
            swept: Mutex::new((0, Instant::now())),
            moves: AtomicU64::new(0),
        };
        Self { lifetime, state: Arc::new(state), translated: Fact::default() }
    }

    /// Whether the server's messages are translated.
    pub(super) fn translated(&self) -> &Fact {
        &self.translated
    }

    #[cfg(feature = "postgres-sync")]
    pub(super) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// The generation of connections whose opening begins now.
    pub(super) fn generation(&self) -> u64 {
        self.state.generation.load(Ordering::Acquire)
    }

    /// Ends the generation if connections from now on lead to another database. All connections must lead to one.
    pub(super) fn follow(&self, moves: u64) {
        if self.state.moves.fetch_max(moves, Ordering::AcqRel) < moves {
            self.state.generation.fetch_add(1, Ordering::AcqRel);
        }
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
    /// one, because this one and all older ones have gone stale. A new session cannot be stale, so this comes to an
    /// end.
    pub(super) fn is_stale<C>(&self, pooled: &mut Pooled<C>, stale: Option<Stale>) -> bool {
        let Some(stale) = stale.filter(|stale| !matches!(stale, Stale::Unread(_)) || self.translated.holds()) else {
            return false;
        };
        if pooled.is_new {
            match stale {
                Stale::Perhaps(missing) | Stale::Unread(missing) => {
                    self.state.suspicions.note(missing, Instant::now());
                }
                // Where it leads, others may lead elsewhere.
                Stale::Standby | Stale::Outdated => pooled.is_unusable = true,
            }
            return false;
        }
        let is_of_earlier = pooled.generation != self.generation();
        if let Stale::Perhaps(missing) | Stale::Unread(missing) = stale
            && !is_of_earlier
            && self.state.suspicions.are_fruitless(missing, Instant::now())
        {
            return false;
        }
        pooled.is_unusable = true;
        // Of several connections that fail at the same time, one ends the generation.
        let next = pooled.generation + 1;
        let _ = self.state.generation.compare_exchange(pooled.generation, next, Ordering::AcqRel, Ordering::Acquire);
        true
    }

    /// Waits until this connection may not be used again, up to a sweep longer.
    pub(super) async fn until_over<C>(&self, pooled: &Pooled<C>) {
        while self.keeps(pooled, Instant::now()) {
            tokio::time::sleep(SWEEP.min(self.lifetime)).await;
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
mod tests {
    use super::*;
    use crate::pg::stale::Missing;
    use crate::pg::suspicions::{MOST, NO_SUSPICION};

    fn perhaps(name: &str) -> Option<Stale> {
        Some(Stale::Perhaps(Missing::named(name)))
    }

    fn used(rotation: &Rotation) -> Pooled<()> {
        let mut pooled = rotation.opened((), rotation.generation());
        pooled.used();
        pooled
    }

    #[test]
    fn a_stale_session_ends_its_generation_once() {
        let rotation = Rotation::new(LIFETIME);
        let (mut one, mut other) = (used(&rotation), used(&rotation));
        let now = Instant::now();
        assert!(rotation.is_stale(&mut one, Some(Stale::Outdated)));
        assert!(!rotation.keeps(&one, now) && !rotation.keeps(&other, now));
        assert_eq!((rotation.is_sweep_due(now), rotation.is_sweep_due(now)), (true, false));
        let mut newer = rotation.opened((), rotation.generation());
        assert!(rotation.is_stale(&mut other, Some(Stale::Outdated)));
        assert!(rotation.keeps(&newer, now), "one end is enough for both");
        assert!(!rotation.is_stale(&mut newer, Some(Stale::Standby)), "it is new");
        assert!(!rotation.keeps(&newer, now) && rotation.keeps(&used(&rotation), now), "others may lead elsewhere");
    }

    #[test]
    fn what_new_sessions_do_not_find_either_closes_nothing() {
        let rotation = Rotation::new(LIFETIME);
        let (mut first, mut second) = (used(&rotation), used(&rotation));
        assert!(rotation.is_stale(&mut first, perhaps("thing")));
        let mut new = rotation.opened((), rotation.generation());
        assert!(!rotation.is_stale(&mut new, perhaps("thing")));
        new.used();
        assert!(!rotation.is_stale(&mut new, perhaps("thing")));
        assert!(rotation.keeps(&new, Instant::now()));
        assert!(rotation.is_stale(&mut second, perhaps("thing")), "it was open before");
        assert!(rotation.is_stale(&mut new, Some(Stale::Outdated)));
    }

    #[test]
    fn something_else_that_is_missing_is_suspected_nevertheless() {
        let rotation = Rotation::new(LIFETIME);
        assert!(!rotation.is_stale(&mut rotation.opened((), 0), perhaps("thing")));
        assert!(!rotation.is_stale(&mut used(&rotation), perhaps("thing")));
        let mut other = used(&rotation);
        assert!(rotation.is_stale(&mut other, perhaps("felt")));
        assert!(!rotation.keeps(&other, Instant::now()));
        let now = Instant::now();
        assert!(
            rotation.state.suspicions.are_fruitless(Missing::named("thing"), now),
            "the end of a generation does not change it"
        );
        assert!(!rotation.state.suspicions.are_fruitless(Missing::named("thing"), now + NO_SUSPICION));
    }

    #[test]
    fn ever_new_names_close_a_bounded_number_of_sessions() {
        let rotation = Rotation::new(LIFETIME);
        let closed = (0..100).filter(|name| {
            let name = perhaps(&name.to_string());
            let is_closed = rotation.is_stale(&mut used(&rotation), name);
            assert!(!rotation.is_stale(&mut rotation.opened((), rotation.generation()), name), "it is new");
            is_closed
        });
        assert_eq!(closed.count(), MOST);
        let later = Instant::now() + NO_SUSPICION;
        assert!(!rotation.state.suspicions.are_fruitless(Missing::named("101"), later));
    }

    #[test]
    fn an_error_that_is_not_read_is_a_suspicion_only_where_messages_are_translated() {
        let (rotation, unread) =
            (Rotation::new(LIFETIME), Some(Stale::Unread(Missing::named("Relation »thing« existiert nicht"))));
        let mut one = used(&rotation);
        assert!(!rotation.is_stale(&mut one, unread));
        rotation.translated().learn(true);
        assert!(rotation.is_stale(&mut one, unread));
        let mut new = rotation.opened((), rotation.generation());
        assert!(!rotation.is_stale(&mut new, unread));
        new.used();
        assert!(!rotation.is_stale(&mut new, unread), "a new session had such an error");
    }

    #[test]
    fn connections_have_ages_of_their_own() {
        let (rotation, now) = (Rotation::new(LIFETIME), Instant::now());
        let (one, other) = (rotation.opened((), 0), rotation.opened((), 0));
        assert_ne!(one.closes_at, other.closes_at);
        assert!(rotation.keeps(&one, now + LIFETIME / 2) && !rotation.keeps(&one, now + LIFETIME * 2));
        assert!(rotation.is_sweep_due(now + SWEEP * 2));
    }
}
