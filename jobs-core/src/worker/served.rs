//! The names and patterns of the queues that a worker serves, with the slots that it was started with.

use std::collections::BTreeMap;

use crate::queue_pattern::{is_pattern, served_as};

pub(super) struct Served {
    slots: BTreeMap<String, usize>,
    /// The names among them that are patterns. Usually there are none.
    patterns: Vec<String>,
}

impl Served {
    pub(super) fn new(slots: &BTreeMap<String, usize>) -> Self {
        let patterns = slots.keys().filter(|name| is_pattern(name)).cloned().collect();
        Self { slots: slots.clone(), patterns }
    }

    /// The queues that are served whether jobs wait there or not.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        self.slots.keys().map(String::as_str).filter(|name| !is_pattern(name))
    }

    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether the queue is served by its name, and not by a pattern.
    pub(super) fn is_named(&self, queue: &str) -> bool {
        self.slots.contains_key(queue)
    }

    /// How many slots the queue has. `None` if it is not served.
    pub(super) fn slots_of(&self, queue: &str) -> Option<usize> {
        if is_pattern(queue) {
            return None;
        }
        let of_pattern = || served_as(&self.patterns, queue).and_then(|pattern| self.slots.get(pattern));
        self.slots.get(queue).or_else(of_pattern).copied()
    }
}
