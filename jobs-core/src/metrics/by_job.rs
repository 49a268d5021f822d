//! One value for each queue and kind, found without an allocation. The numbers of different queues and kinds are
//! bounded. Otherwise generated names could fill the memory of this process and of the monitoring system.
//!
//! Queues may come and go, for example one for each tenant. When there are too many, those that had no job for
//! [`KEPT`] make room. Their series end, and begin at zero if they come back, as after a restart of the process. The
//! queue `default` always has a place, whatever other queues there are.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;

use super::names::{ALWAYS, MOST_LABELS, OTHER};

/// How long a queue and kind keeps its labels at least after its last use.
const KEPT: Duration = Duration::from_secs(3600);

/// The values, by queue and kind.
pub struct ByJob<T> {
    queues: RwLock<Known<T>>,
}

/// Names, and what belongs to each.
type Named<V> = HashMap<Box<str>, V, FxBuildHasher>;

struct Known<T> {
    by_queue: Named<Named<Entry<T>>>,
    kinds: HashSet<Box<str>, FxBuildHasher>,
    /// Each entry knows whether it was used since then.
    since: Instant,
}

struct Entry<T> {
    value: Arc<T>,
    used: AtomicBool,
}

impl<T> Default for ByJob<T> {
    fn default() -> Self {
        let known = Known { by_queue: HashMap::default(), kinds: HashSet::default(), since: Instant::now() };
        Self { queues: RwLock::new(known) }
    }
}

impl<T> std::fmt::Debug for ByJob<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByJob").finish_non_exhaustive()
    }
}

impl<T> Known<T> {
    /// The labels for this queue and kind: themselves, or [`OTHER`] if there are too many.
    fn labels<'a>(&self, queue: &'a str, kind: &'a str) -> (&'a str, &'a str) {
        let queue_fits = queue == ALWAYS || self.by_queue.len() < MOST_LABELS || self.by_queue.contains_key(queue);
        let kind_fits = self.kinds.len() < MOST_LABELS || self.kinds.contains(kind);
        (if queue_fits { queue } else { OTHER }, if kind_fits { kind } else { OTHER })
    }

    fn get(&self, queue: &str, kind: &str) -> Option<&Arc<T>> {
        let entry = self.by_queue.get(queue)?.get(kind)?;
        // It is set already for all but the first job of an hour, and reading it costs other threads nothing.
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Some(&entry.value)
    }

    fn is_full(&self) -> bool {
        self.by_queue.len() >= MOST_LABELS || self.kinds.len() >= MOST_LABELS
    }

    fn may_forget(&self, now: Instant) -> bool {
        self.is_full() && now.saturating_duration_since(self.since) >= KEPT
    }

    /// Removes what was not used since the last call.
    fn forget(&mut self, now: Instant) {
        self.since = now;
        self.by_queue.retain(|_, kinds| {
            kinds.retain(|_, entry| std::mem::take(entry.used.get_mut()));
            !kinds.is_empty()
        });
        let used: HashSet<&str> = self.by_queue.values().flat_map(|kinds| kinds.keys().map(|kind| &**kind)).collect();
        self.kinds.retain(|kind| used.contains(&**kind));
    }
}

impl<T> ByJob<T> {
    /// The value of this queue and kind. The first time, `make` makes it from the two labels.
    pub fn get(&self, queue: &str, kind: &str, make: impl FnOnce(&str, &str) -> T) -> Arc<T> {
        self.get_at(Instant::now, queue, kind, make)
    }

    fn get_at(&self, now: impl Fn() -> Instant, queue: &str, kind: &str, make: impl FnOnce(&str, &str) -> T) -> Arc<T> {
        {
            let known = self.queues.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = known.get(queue, kind) {
                return value.clone();
            }
            let (queue, kind) = known.labels(queue, kind);
            if !known.may_forget(now())
                && let Some(value) = known.get(queue, kind)
            {
                return value.clone();
            }
        }
        let mut known = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if known.may_forget(now()) {
            known.forget(now());
        }
        let (queue, kind) = known.labels(queue, kind);
        if let Some(value) = known.get(queue, kind) {
            return value.clone();
        }
        let value = Arc::new(make(queue, kind));
        if kind != OTHER {
            known.kinds.insert(kind.into());
        }
        let entry = Entry { value: value.clone(), used: AtomicBool::new(true) };
        known.by_queue.entry(queue.into()).or_default().insert(kind.into(), entry);
        value
    }

    /// All values with their labels, sorted.
    pub fn all(&self) -> Vec<(String, String, Arc<T>)> {
        let known = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known
            .by_queue
            .iter()
            .flat_map(|(queue, kinds)| {
                kinds.iter().map(|(kind, entry)| (queue.to_string(), kind.to_string(), entry.value.clone()))
            })
            .collect();
        all.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_hundred_kinds_and_queues_the_others_share_one_value() {
        let by_job = ByJob::<(String, String)>::default();
        let label = |queue: &str, kind: &str| {
            let value = by_job.get(queue, kind, |queue, kind| (queue.to_owned(), kind.to_owned()));
            (value.0.clone(), value.1.clone())
        };
        for number in 0..MOST_LABELS {
            label("mail", &format!("kind{number}"));
        }
        assert_eq!(label("mail", "late"), ("mail".to_owned(), OTHER.to_owned()));
        assert_eq!(label("other", "kind7"), ("other".to_owned(), "kind7".to_owned()));
        for number in 0..MOST_LABELS * 3 {
            label(&format!("queue{number}"), "late");
        }
        assert_eq!(label("queue299", "later"), (OTHER.to_owned(), OTHER.to_owned()));
        assert_eq!(label("mail", "kind7"), ("mail".to_owned(), "kind7".to_owned()));
        let (queues, kinds): (HashSet<_>, HashSet<_>) =
            by_job.all().into_iter().map(|(queue, kind, _)| (queue, kind)).unzip();
        assert_eq!((queues.len(), kinds.len()), (MOST_LABELS + 1, MOST_LABELS + 1));
    }

    #[test]
    fn names_that_are_gone_make_room_after_an_hour() {
        let by_job = ByJob::<(String, String)>::default();
        let began = Instant::now();
        let label = |hours: u32, queue: &str, kind: &str| {
            let now = || began + KEPT * hours + Duration::from_secs(60);
            let value = by_job.get_at(now, queue, kind, |queue, kind| (queue.to_owned(), kind.to_owned()));
            (value.0.clone(), value.1.clone())
        };
        let own = |queue: &str, kind: &str| (queue.to_owned(), kind.to_owned());
        for number in 0..MOST_LABELS {
            label(0, &format!("tenant{number}"), &format!("kind{number}"));
        }
        assert_eq!(label(0, "mail", "greet"), own(OTHER, OTHER), "all of them may be in use");
        assert_eq!(label(0, "default", "greet"), own("default", OTHER), "it has its place");
        // All were used in the first hour, and these three in the second one.
        assert_eq!(label(1, "mail", "greet"), own(OTHER, OTHER));
        for number in [3, 5, 8] {
            label(1, &format!("tenant{number}"), &format!("kind{number}"));
        }
        assert_eq!(label(2, "mail", "greet"), own("mail", "greet"));
        assert_eq!(label(2, "tenant200", "kind3"), own("tenant200", "kind3"));
        let queues: Vec<String> = by_job.all().into_iter().map(|(queue, ..)| queue).collect();
        assert_eq!(queues, [OTHER, "mail", "tenant200", "tenant3", "tenant5", "tenant8"]);
        // Who comes back begins anew.
        assert_eq!(label(2, "tenant0", "kind0"), own("tenant0", "kind0"));
    }
}
