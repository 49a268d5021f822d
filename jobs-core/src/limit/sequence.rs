//! Sequences: jobs with the same key run one after the other, in the order of their ids.

use serde::{Deserialize, Serialize};

use super::Limit;

/// What happens in a sequence when one of its jobs is discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnDiscard {
    /// The sequence halts: none of the later jobs starts. `worker retry` runs the discarded job again, and `worker sequences skip`
    /// continues without it.
    #[default]
    Halt,
    /// The next job starts.
    Skip,
}

impl OnDiscard {
    /// The name that is stored, and written in `#[job]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Halt => "halt",
            Self::Skip => "skip",
        }
    }
}

/// The sequence of one job, see [`Job::sequence`](crate::Job::sequence).
#[derive(Clone, Debug)]
#[must_use = "pass it to `sequence`"]
pub struct Sequence {
    limit: Limit,
    on_discard: OnDiscard,
}

impl Sequence {
    /// The sequence with this name. Default: all its jobs have one key.
    pub fn new(name: impl Into<String>) -> Self {
        Self { limit: Limit::new(name, 1), on_discard: OnDiscard::Halt }
    }

    /// The jobs with each value are a sequence of their own. Several calls make a key of several values. A value is a text, a whole
    /// number, a boolean or null.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.limit = self.limit.key(value);
        self
    }

    /// Sets what happens when this job is discarded. Default: the sequence halts.
    pub fn on_discard(mut self, on_discard: OnDiscard) -> Self {
        self.on_discard = on_discard;
        self
    }

    pub(crate) fn into_limit(self) -> Limit {
        Limit { sequence: Some(self.on_discard), ..self.limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Concurrency, IntoNewJob as _, Job as _, JobLimit, LimitProblem};

    #[derive(Serialize, Deserialize)]
    struct Ship {
        order: i64,
    }

    impl crate::Job for Ship {
        const KIND: &'static str = "ship";
        const OPTIONS: crate::JobOptions =
            crate::JobOptions::new().concurrency(Concurrency::in_sequence("orders", OnDiscard::Skip).by(&["order"]));
    }

    #[test]
    fn a_sequence_is_stored_with_its_job() {
        let limit = Ship { order: 7 }.into_new_job().unwrap().limit.unwrap();
        assert_eq!(limit.to_json(), r#"{"limit":"orders","key":"[7]","most":1,"sequence":"skip"}"#);
        let limit = Ship { order: 7 }.sequence(Sequence::new("own").key("x")).into_new_job().unwrap().limit.unwrap();
        assert_eq!(limit.to_json(), r#"{"limit":"own","key":"[\"x\"]","most":1,"sequence":"halt"}"#);
        assert_eq!(limit.flags(), 5);
        assert_eq!(limit.clone().checked(), Ok(*limit));
        let stored: JobLimit = serde_json::from_str(r#"{"limit":"a","key":"[]","most":2,"sequence":"halt"}"#).unwrap();
        assert_eq!(stored.checked(), Err(LimitProblem::SequenceOf(2)));
    }
}
