//! What the proxy is told to do wrong, while it runs, and how often it did.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::frames::Frame;
use super::script::Unit;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClient,
}

/// What holds for all connections alike.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// Each message waits this long, in either direction.
    pub delay: Duration,
    /// Nothing arrives at the server.
    pub hole_to_server: bool,
    /// Nothing arrives at clients.
    pub hole_to_client: bool,
    /// Notifications are lost, and nothing else.
    pub mute: bool,
}

/// What is lost on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The statement: the server never hears of it.
    There,
    /// The reply: the server did what the statement says.
    Back,
    /// The last word of the reply, which says that all is committed: the rows arrive.
    LastWord,
}

/// Loses some statements, or the replies to them. The connection is cut with them.
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
    /// How many were lost.
    pub fn count(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }

    /// No more of them.
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

/// Statements that are kept on their way to the server until they are let go.
#[derive(Debug)]
pub struct Held {
    needle: String,
    caught: AtomicUsize,
    changed: Notify,
    open: watch::Sender<bool>,
}

impl Held {
    /// How many were caught.
    pub fn count(&self) -> usize {
        self.caught.load(Ordering::Acquire)
    }

    /// Waits until one was caught.
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

    /// Lets them arrive, and all that follow.
    pub fn release(&self) {
        self.open.send_replace(true);
    }
}

/// Statements that say something else when they arrive.
#[derive(Debug)]
pub struct Reworded {
    from: String,
    to: String,
    count: AtomicUsize,
}

impl Reworded {
    /// How many were.
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

    /// Counts something that the server was asked for and refused.
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

    /// The message as the server is to have it.
    pub(crate) fn worded(&self, mut frame: Frame) -> Frame {
        for rule in lock(&self.reworded).iter() {
            if let Some(reworded) = frame.reworded(&rule.from, &rule.to) {
                frame = reworded;
                rule.count.fetch_add(1, Ordering::AcqRel);
            }
        }
        frame
    }

    /// Whether the reply to this might be lost: it is kept together until that is known.
    pub(crate) fn concerns(&self, unit: &[Arc<str>]) -> bool {
        lock(&self.lost)
            .iter()
            .any(|rule| rule.way != Way::There && rule.left.load(Ordering::Acquire) > 0 && names(&rule.needle, unit))
    }

    /// Whether this, or the reply to it, is lost now.
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

    /// Waits for as long as the weather has it.
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
