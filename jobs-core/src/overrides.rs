//! What operators have set at run time, as workers read it: a pure value.

use std::collections::{BTreeMap, BTreeSet};

use crate::outcome::{Keep, Kept};
use crate::state::JobState;

/// What workers follow instead of what they were started with. Usually all of it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The paused queues.
    pub paused_queues: BTreeSet<String>,
    /// How many jobs of these queues each worker runs at once.
    pub slots: BTreeMap<String, usize>,
    /// The paused kinds.
    pub paused_kinds: BTreeSet<String>,
    /// How long ended jobs are kept.
    pub retention: RetentionOverrides,
}

/// How long ended jobs are kept, by state and kind. The empty kind stands for all that have no entry of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionOverrides(BTreeMap<(&'static str, String), Keep>);

impl RetentionOverrides {
    /// Adds an entry, or replaces it.
    pub fn insert(&mut self, kind: &str, state: JobState, keep: Keep) {
        self.0.insert((state.as_str(), kind.to_owned()), keep);
    }

    /// How long jobs of this kind that end in this state are kept. `None`: as the worker was started.
    pub fn keep(&self, kind: &str, state: JobState) -> Option<Keep> {
        if self.0.is_empty() {
            return None;
        }
        let of = |kind: &str| self.0.get(&(state.as_str(), kind.to_owned())).copied();
        of(kind).or_else(|| of(""))
    }

    /// Replaces what is set for this kind.
    pub(crate) fn apply(&self, kind: &str, kept: Kept) -> Kept {
        if self.0.is_empty() {
            return kept;
        }
        Kept {
            completed: self.keep(kind, JobState::Completed).unwrap_or(kept.completed),
            cancelled: self.keep(kind, JobState::Cancelled).unwrap_or(kept.cancelled),
            discarded: self.keep(kind, JobState::Discarded).unwrap_or(kept.discarded),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::Retention;

    #[test]
    fn the_entry_of_the_kind_comes_before_that_for_all_and_both_before_the_code() {
        let (hour, day) = (Keep::For(Duration::from_secs(3600)), Keep::For(Duration::from_secs(86_400)));
        let mut overrides = RetentionOverrides::default();
        let started = Retention::default().kept(crate::job_options::Retain::None);
        assert_eq!(overrides.apply("mail", started), started);
        overrides.insert("", JobState::Completed, hour);
        overrides.insert("mail", JobState::Completed, Keep::Forever);
        overrides.insert("mail", JobState::Discarded, day);
        let mail = Kept { completed: Keep::Forever, discarded: day, ..started };
        assert_eq!(overrides.apply("mail", started), mail);
        assert_eq!(overrides.apply("charge", started), Kept { completed: hour, ..started });
    }
}
