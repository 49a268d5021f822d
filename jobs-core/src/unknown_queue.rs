//! A queue that a worker serves, and that is the default queue of no job. Either only SQL uses the queue, or its name
//! is a typing error.

use std::collections::BTreeSet;

use crate::nearest::nearest;

/// A queue that a worker serves although it is not declared and is the default queue of no registered job.
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

    /// The known queue that a name was probably meant to be.
    pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        nearest(name, known)
    }

    /// Advice for a typing error: `did you mean ..?`, or the known queues.
    pub fn hint(&self) -> String {
        let known = self.known.join(", ");
        if let Some((name, number)) = self.name.split_once(':')
            && number.parse::<usize>().is_ok()
        {
            return format!("if {number} slots are meant, write `{name}={number}`. The program's jobs go to: {known}");
        }
        match &self.near {
            Some(near) => format!("did you mean `{near}`? The program's jobs go to: {known}"),
            None => format!("the program's jobs go to: {known}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_after_a_colon_is_taken_for_slots() {
        let hint = |name| UnknownQueue::new(name, &["mail"].into()).hint();
        assert_eq!(hint("mail:5"), "if 5 slots are meant, write `mail=5`. The program's jobs go to: mail");
        assert_eq!(hint("tenant:ada"), "the program's jobs go to: mail");
        assert_eq!(hint("mial"), "did you mean `mail`? The program's jobs go to: mail");
    }
}
