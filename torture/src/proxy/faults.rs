//! The faults that a test sets in a running proxy, and how often each of them occurred.
//!
//! A *unit* is what the server answers with one reply: the statements up to a sync, or one simple query.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::frames::Frame;
use super::script::Unit;

/// The direction in which bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClient,
}

/// The faults that apply to all connections, as long as they are set.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// The delay of each message, in both directions.
    pub delay: Duration,
    /// Messages to the server are held back.
    pub hole_to_server: bool,
    /// Messages to the clients are held back.
    pub hole_to_client: bool,
    /// Notifications are dropped. All other messages arrive.
    pub mute: bool,
}

/// Which message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The request: the server never receives the unit.
    There,
    /// The whole reply: the server has executed the unit.
    Back,
    /// The last message of the reply, which confirms the commit. The rows before it arrive.
    LastWord,
}

/// A rule that drops some requests, or the replies to them. Each time it also closes the connection.
#[derive(Debug)]
pub struct Losses {
    /// A unit matches if the SQL of one of its statements contains this text.
    needle: String,
    way: Way,
    /// One in this many matching units is dropped.
    every: usize,
    /// How many more are dropped at most.
    left: AtomicUsize,
    /// How many units have matched so far.
    seen: AtomicUsize,
    /// How many were dropped so far.
    lost: AtomicUsize,
}

impl Losses {
    /// Returns how many were dropped so far.
    pub fn count(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }

    /// Ends the rule: nothing more is dropped.
    pub fn end(&self) {
        self.left.store(0, Ordering::Release);
    }

    /// Whether this unit, or the reply to it, must be dropped now. Counts the unit.
    fn strikes(&self, way: Way, unit: &[Arc<str>]) -> bool {
        if self.way != way
            || !names(&self.needle, unit)
            || !(self.seen.fetch_add(1, Ordering::AcqRel) + 1).is_multiple_of(self.every)
        {
            return false;
        }
        let one_less = |left: usize| left.checked_sub(1);
        let strikes = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok();
        self.lost.fetch_add(usize::from(strikes), Ordering::AcqRel);
        strikes
    }
}

/// A rule that holds back units on their way to the server, until the test releases them.
#[derive(Debug)]
pub struct Held {
    /// A unit matches if the SQL of one of its statements contains this text.
    needle: String,
    /// How many units were held back so far.
    caught: AtomicUsize,
    /// Notified when a unit is held back.
    changed: Notify,
    /// Whether the units were released.
    open: watch::Sender<bool>,
}

impl Held {
    /// Returns how many units were held back so far.
    pub fn count(&self) -> usize {
        self.caught.load(Ordering::Acquire)
    }

    /// Waits until at least one unit was held back.
    pub async fn caught(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.count() > 0 {
                return;
            }
            changed.await;
        }
    }

    /// Sends the held units to the server. Later units are not held back.
    pub fn release(&self) {
        self.open.send_replace(true);
    }
}

/// A rule that changes the text of statements on their way to the server.
#[derive(Debug)]
pub struct Reworded {
    /// The text that is replaced.
    from: String,
    /// The text that replaces it.
    to: String,
    /// How many messages were changed so far.
    count: AtomicUsize,
}

impl Reworded {
    /// Returns how many messages were changed so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

/// The faults of one proxy.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    weather: watch::Sender<Weather>,
    /// How often the test has closed all connections. Each connection watches this number and ends when it changes.
    cuts: watch::Sender<usize>,
    lost: Mutex<Vec<Arc<Losses>>>,
    held: Mutex<Vec<Arc<Held>>>,
    reworded: Mutex<Vec<Arc<Reworded>>>,
    /// How many errors the server has sent, plus how many connections it has not accepted.
    contention: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the SQL of one of these statements contains the text.
fn names(needle: &str, unit: &[Arc<str>]) -> bool {
    unit.iter().any(|sql| sql.contains(needle))
}

impl Faults {
    pub(crate) fn weather(&self) -> &watch::Sender<Weather> {
        &self.weather
    }

    pub(crate) fn cuts(&self) -> &watch::Sender<usize> {
        &self.cuts
    }

    /// Counts an error that the server has sent, or a connection that it did not accept.
    pub(crate) fn refused(&self) {
        self.contention.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many errors the server has sent, plus how many connections it has not accepted.
    pub(crate) fn times_in_vain(&self) -> usize {
        self.contention.load(Ordering::Relaxed)
    }

    /// Drops every `every`th unit that contains `needle`, or the reply to it, at most `times` times.
    pub(crate) fn lose(&self, way: Way, needle: &str, every: usize, times: usize) -> Arc<Losses> {
        let rule = Arc::new(Losses {
            needle: needle.to_owned(),
            way,
            every: every.max(1),
            left: times.into(),
            seen: 0.into(),
            lost: 0.into(),
        });
        lock(&self.lost).push(rule.clone());
        rule
    }

    /// Holds back the units that contain `needle`.
    pub(crate) fn hold(&self, needle: &str) -> Arc<Held> {
        let rule = Arc::new(Held {
            needle: needle.to_owned(),
            caught: 0.into(),
            changed: Notify::new(),
            open: watch::Sender::new(false),
        });
        lock(&self.held).push(rule.clone());
        rule
    }

    /// Replaces `from` by `to` in every message that carries SQL.
    pub(crate) fn reword(&self, from: &str, to: &str) -> Arc<Reworded> {
        let rule = Arc::new(Reworded { from: from.to_owned(), to: to.to_owned(), count: 0.into() });
        lock(&self.reworded).push(rule.clone());
        rule
    }

    /// Returns the message after all replacements.
    pub(crate) fn worded(&self, mut frame: Frame) -> Frame {
        for rule in lock(&self.reworded).iter() {
            if let Some(reworded) = frame.reworded(&rule.from, &rule.to) {
                frame = reworded;
                rule.count.fetch_add(1, Ordering::AcqRel);
            }
        }
        frame
    }

    /// Whether a rule may drop the reply to this unit. If so, the proxy stores the reply until its end has arrived,
    /// because only the end shows whether the rule applies.
    pub(crate) fn concerns(&self, unit: &[Arc<str>]) -> bool {
        lock(&self.lost)
            .iter()
            .any(|rule| rule.way != Way::There && rule.left.load(Ordering::Acquire) > 0 && names(&rule.needle, unit))
    }

    /// Whether this unit, or the reply to it, must be dropped now.
    pub(crate) fn strike(&self, way: Way, unit: &[Arc<str>]) -> bool {
        lock(&self.lost).iter().any(|rule| rule.strikes(way, unit))
    }

    /// Waits while a rule holds the unit back.
    pub(crate) async fn pass(&self, unit: &Unit) {
        let held = lock(&self.held).iter().find(|rule| !*rule.open.borrow() && names(&rule.needle, unit)).cloned();
        if let Some(rule) = held {
            rule.caught.fetch_add(1, Ordering::AcqRel);
            rule.changed.notify_waiters();
            let _ = rule.open.subscribe().wait_for(|open| *open).await;
        }
    }

    /// Waits for the delay of the [`Weather`], and then while messages in this direction are held back.
    pub(crate) async fn wait(&self, direction: Direction) {
        let delay = self.weather.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let open = |weather: &Weather| match direction {
            Direction::ToServer => !weather.hole_to_server,
            Direction::ToClient => !weather.hole_to_client,
        };
        if !open(&self.weather.borrow()) {
            let _ = self.weather.subscribe().wait_for(open).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_so_manieth_matching_statement_is_struck_and_no_more_than_said() {
        let faults = Faults::default();
        let rule = faults.lose(Way::Back, "COMMIT", 2, 2);
        let (commit, other): (Unit, Unit) = (vec!["COMMIT".into()], vec!["select 1".into()]);
        assert!(faults.concerns(&commit) && !faults.concerns(&other));
        let struck = (0..8).map(|_| faults.strike(Way::Back, &commit)).collect::<Vec<_>>();
        assert_eq!(struck, [false, true, false, true, false, false, false, false]);
        assert!(!faults.strike(Way::Back, &other) && !faults.strike(Way::There, &commit));
        assert_eq!(rule.count(), 2);
        assert!(!faults.concerns(&commit), "used up");
    }
}
