//! A queue that is served and that no job of the program goes to by default: one that only SQL names, or a typing error.

use std::collections::BTreeSet;

use crate::nearest::nearest;

/// A queue that a worker serves although no registered job goes there by default and nobody declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownQueue {
    /// The queue.
    pub name: String,
    /// The queues that the program knows, sorted.
    pub known: Vec<String>,
    /// The known queue that was probably meant, if this is a typing error.
    pub near: Option<String>,
}

impl UnknownQueue {
    pub(super) fn new(name: &str, known: &BTreeSet<&str>) -> Self {
        Self {
            name: name.to_owned(),
            known: known.iter().map(|&known| known.to_owned()).collect(),
            near: nearest(name, known.iter().copied()).map(str::to_owned),
        }
    }

    /// What would help if it is a typing error: `did you mean ..?`, or the known queues.
    pub fn hint(&self) -> String {
        let known = self.known.join(", ");
        match &self.near {
            Some(near) => format!("did you mean `{near}`? The program's jobs go to: {known}"),
            None => format!("the program's jobs go to: {known}"),
        }
    }
}
