//! One value for each queue and kind, found without an allocation. The numbers of different queues and kinds are bounded.
//! Otherwise generated names could fill the memory of this process and of the monitoring system.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

use super::names::{MOST_LABELS, OTHER};

/// The values, by queue and kind.
pub struct ByJob<T> {
    queues: RwLock<Known<T>>,
}

/// Names, and what belongs to each.
type Named<V> = HashMap<Box<str>, V, FxBuildHasher>;

struct Known<T> {
    by_queue: Named<Named<Arc<T>>>,
    kinds: HashSet<Box<str>, FxBuildHasher>,
}

impl<T> Default for ByJob<T> {
    fn default() -> Self {
        let known = Known { by_queue: HashMap::default(), kinds: HashSet::default() };
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
        let queue_fits = self.by_queue.len() < MOST_LABELS || self.by_queue.contains_key(queue);
        let kind_fits = self.kinds.len() < MOST_LABELS || self.kinds.contains(kind);
        (if queue_fits { queue } else { OTHER }, if kind_fits { kind } else { OTHER })
    }

    fn get(&self, queue: &str, kind: &str) -> Option<&Arc<T>> {
        self.by_queue.get(queue)?.get(kind)
    }
}

impl<T> ByJob<T> {
    /// The value of this queue and kind. The first time, `make` makes it from the two labels.
    pub fn get(&self, queue: &str, kind: &str, make: impl FnOnce(&str, &str) -> T) -> Arc<T> {
        {
            let known = self.queues.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = known.get(queue, kind) {
                return value.clone();
            }
            let (queue, kind) = known.labels(queue, kind);
            if let Some(value) = known.get(queue, kind) {
                return value.clone();
            }
        }
        let mut known = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let (queue, kind) = known.labels(queue, kind);
        if let Some(value) = known.get(queue, kind) {
            return value.clone();
        }
        let value = Arc::new(make(queue, kind));
        if kind != OTHER {
            known.kinds.insert(kind.into());
        }
        known.by_queue.entry(queue.into()).or_default().insert(kind.into(), value.clone());
        value
    }

    /// All values with their labels, sorted.
    pub fn all(&self) -> Vec<(String, String, Arc<T>)> {
        let known = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known
            .by_queue
            .iter()
            .flat_map(|(queue, kinds)| {
                kinds.iter().map(|(kind, value)| (queue.to_string(), kind.to_string(), value.clone()))
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
}
