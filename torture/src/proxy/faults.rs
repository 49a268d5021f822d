//! The faults that a test sets in a running proxy, and how often each occurred.

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

/// The faults that apply to all connections.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// Each message is delayed for so long, in either direction.
    pub delay: Duration,
    /// Nothing reaches the server.
    pub hole_to_server: bool,
    /// Nothing reaches the clients.
    pub hole_to_client: bool,
    /// Notifications are dropped. Everything else arrives.
    pub mute: bool,
}

/// What is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The statement: the server never receives it.
    There,
    /// The reply: the server has executed the statement.
    Back,
    /// The end of the reply, which confirms the commit. The rows before it arrive.
    LastWord,
}

/// Drops some statements, or the replies to them, and closes their connections.
#[derive(Debug)]
pub struct Losses {
    needle: String,
    way: Way,
    every: usize,
    left: AtomicUsize,
    seen: AtomicUsize,
    lost: AtomicUsize,
}

impl Losses {
    /// How many were dropped so far.
    pub fn count(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }

    /// Stops dropping.
    pub fn end(&self) {
        self.left.store(0, Ordering::Release);
    }

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

/// Statements that are held back on their way to the server, until they are released.
#[derive(Debug)]
pub struct Held {
    needle: String,
    caught: AtomicUsize,
    changed: Notify,
    open: watch::Sender<bool>,
}

impl Held {
    /// How many were held back so far.
    pub fn count(&self) -> usize {
        self.caught.load(Ordering::Acquire)
    }

    /// Waits until one is held back.
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

    /// Lets the held statements through, and all later ones.
    pub fn release(&self) {
        self.open.send_replace(true);
    }
}

/// Statements whose text is changed on their way to the server.
#[derive(Debug)]
pub struct Reworded {
    from: String,
    to: String,
    count: AtomicUsize,
}

impl Reworded {
    /// How many were changed so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

/// The faults of one proxy.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    weather: watch::Sender<Weather>,
    cuts: watch::Sender<usize>,
    lost: Mutex<Vec<Arc<Losses>>>,
    held: Mutex<Vec<Arc<Held>>>,
    reworded: Mutex<Vec<Arc<Reworded>>>,
    contention: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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

    /// Counts an error of the server, or a connection that it did not accept.
    pub(crate) fn refused(&self) {
        self.contention.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn times_in_vain(&self) -> usize {
        self.contention.load(Ordering::Relaxed)
    }

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

    pub(crate) fn reword(&self, from: &str, to: &str) -> Arc<Reworded> {
        let rule = Arc::new(Reworded { from: from.to_owned(), to: to.to_owned(), count: 0.into() });
        lock(&self.reworded).push(rule.clone());
        rule
    }

    /// Returns the message with all replacements made.
    pub(crate) fn worded(&self, mut frame: Frame) -> Frame {
        for rule in lock(&self.reworded).iter() {
            if let Some(reworded) = frame.reworded(&rule.from, &rule.to) {
                frame = reworded;
                rule.count.fetch_add(1, Ordering::AcqRel);
            }
        }
        frame
    }

    /// Whether the reply to this unit might be dropped. If so, the reply is kept together until its end.
    pub(crate) fn concerns(&self, unit: &[Arc<str>]) -> bool {
        lock(&self.lost)
            .iter()
            .any(|rule| rule.way != Way::There && rule.left.load(Ordering::Acquire) > 0 && names(&rule.needle, unit))
    }

    /// Whether this unit, or the reply to it, is dropped now.
    pub(crate) fn strike(&self, way: Way, unit: &[Arc<str>]) -> bool {
        lock(&self.lost).iter().any(|rule| rule.strikes(way, unit))
    }

    /// Waits until the unit may arrive at the server.
    pub(crate) async fn pass(&self, unit: &Unit) {
        let held = lock(&self.held).iter().find(|rule| !*rule.open.borrow() && names(&rule.needle, unit)).cloned();
        if let Some(rule) = held {
            rule.caught.fetch_add(1, Ordering::AcqRel);
            rule.changed.notify_waiters();
            let _ = rule.open.subscribe().wait_for(|open| *open).await;
        }
    }

    /// Waits for the delay of all connections, and while this direction is blocked.
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
