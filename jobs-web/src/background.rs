//! Values that take longer to read than a page may wait. The newest value is kept, with the time when it was read. A
//! newer one is read in the background, one at a time for each key.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

/// A value, and when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Kept<T> {
    pub(crate) value: T,
    pub(crate) at: DateTime<Utc>,
    /// The same by a clock that cannot be set.
    read: Instant,
}

impl<T> Kept<T> {
    pub(crate) fn age(&self) -> Duration {
        self.read.elapsed()
    }
}

struct Entry<T> {
    newest: Option<Kept<T>>,
    is_reading: bool,
}

struct Shared<K, T> {
    entries: Mutex<HashMap<K, Entry<T>>>,
    ended: Notify,
}

/// The newest value of each key.
pub(crate) struct Background<K, T>(Arc<Shared<K, T>>);

impl<K, T> Clone for Background<K, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, T> Default for Background<K, T> {
    fn default() -> Self {
        Self(Arc::new(Shared { entries: Mutex::new(HashMap::new()), ended: Notify::new() }))
    }
}

/// A value that is being read. The reading ends when this is dropped, even after a panic.
struct Reading<K: Eq + Hash, T>(Background<K, T>, K);

impl<K: Eq + Hash, T> Drop for Reading<K, T> {
    fn drop(&mut self) {
        self.0.with(|entries| {
            if let Some(entry) = entries.get_mut(&self.1) {
                entry.is_reading = false;
            }
        });
        self.0.0.ended.notify_waiters();
    }
}

impl<K: Eq + Hash, T> Background<K, T> {
    fn with<R>(&self, work: impl FnOnce(&mut HashMap<K, Entry<T>>) -> R) -> R {
        work(&mut self.0.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a value that was read now.
    pub(crate) fn keep(&self, key: K, value: T) {
        let newest = Kept { value, at: Utc::now(), read: Instant::now() };
        self.with(|entries| {
            entries.entry(key).or_insert(Entry { newest: None, is_reading: false }).newest = Some(newest);
        });
    }
}

impl<K: Eq + Hash + Clone + Send + 'static, T: Clone + Send + 'static> Background<K, T> {
    /// The newest value, and whether a newer one is being read.
    pub(crate) fn newest(&self, key: &K) -> (Option<Kept<T>>, bool) {
        self.with(|entries| entries.get(key).map_or((None, false), |entry| (entry.newest.clone(), entry.is_reading)))
    }

    /// Reads the value in the background, unless it is being read already. `None`: the newest one is kept.
    pub(crate) fn refresh<F>(&self, key: K, read: F)
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let begins = self.with(|entries| {
            let entry = entries.entry(key.clone()).or_insert(Entry { newest: None, is_reading: false });
            !std::mem::replace(&mut entry.is_reading, true)
        });
        if !begins {
            return;
        }
        let reading = Reading(self.clone(), key.clone());
        tokio::spawn(async move {
            if let Some(value) = read.await {
                reading.0.keep(key, value);
            }
        });
    }

    /// The value, if it is younger than `old`. One that is older than `fresh` is read again in the background. If there
    /// is none, it is read now.
    pub(crate) async fn recent<E, F>(&self, key: K, (fresh, old): (Duration, Duration), read: F) -> Result<T, E>
    where
        E: fmt::Display,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let Some(known) = self.newest(&key).0.filter(|kept| kept.age() < old) else {
            let value = read.await?;
            self.keep(key, value.clone());
            return Ok(value);
        };
        if known.age() >= fresh {
            self.refresh(key, async move {
                let warn = |problem: &E| {
                    tracing::warn!(target: "diesel_jobs", { %problem }, "a part of the dashboard could not be read");
                };
                read.await.inspect_err(warn).ok()
            });
        }
        Ok(known.value)
    }

    /// Waits until the value of this key is not being read, at most for this long.
    pub(crate) async fn ended(&self, key: &K, limit: Duration) {
        let all_ended = async {
            loop {
                let mut ended = pin!(self.0.ended.notified());
                ended.as_mut().enable();
                if !self.newest(key).1 {
                    return;
                }
                ended.await;
            }
        };
        // If the time is over, the newest value is not changed.
        let _ = tokio::time::timeout(limit, all_ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_value_is_read_at_a_time_and_the_newest_is_kept() {
        let values = Background::<&str, u8>::default();
        let (asked, answer) = tokio::sync::oneshot::channel();
        values.refresh("a", async move { answer.await.ok() });
        values.refresh("a", async { panic!("it is being read already") });
        assert!(values.newest(&"a").0.is_none() && values.newest(&"a").1);
        asked.send(7).unwrap_or_else(|_| panic!("nobody reads"));
        values.ended(&"a", Duration::from_secs(60)).await;
        let (newest, is_reading) = values.newest(&"a");
        assert_eq!((newest.map(|kept| kept.value), is_reading), (Some(7), false));
        values.refresh("a", async { None });
        values.ended(&"a", Duration::from_secs(60)).await;
        assert_eq!(values.newest(&"a").0.map(|kept| kept.value), Some(7), "a reading without a value changes nothing");
        assert!(values.newest(&"b").0.is_none());
    }

    #[tokio::test]
    async fn a_value_is_read_now_if_there_is_none_and_in_the_background_if_it_is_not_fresh() {
        let values = Background::<(), u8>::default();
        let (none, hour) = (Duration::ZERO, Duration::from_secs(3600));
        let recent =
            async |spans, value| values.recent((), spans, async move { Result::<u8, String>::Ok(value) }).await;
        assert_eq!(recent((hour, hour), 1).await, Ok(1));
        assert_eq!(recent((hour, hour), 2).await, Ok(1), "it is fresh");
        assert_eq!(recent((none, hour), 3).await, Ok(1), "it is not fresh, and good enough");
        values.ended(&(), hour).await;
        assert_eq!(recent((hour, hour), 4).await, Ok(3));
        assert_eq!(recent((none, none), 5).await, Ok(5), "it is too old");
        let failed = values.recent((), (none, none), async { Err("down".to_owned()) }).await;
        assert_eq!(failed, Err("down".to_owned()));
    }

    #[tokio::test]
    async fn after_a_panic_the_value_can_be_read_again() {
        let values = Background::<(), u8>::default();
        values.refresh((), async { panic!("a panic of the test") });
        values.ended(&(), Duration::from_secs(60)).await;
        values.refresh((), async { Some(1) });
        values.ended(&(), Duration::from_secs(60)).await;
        assert_eq!(values.newest(&()).0.map(|kept| kept.value), Some(1));
    }
}
