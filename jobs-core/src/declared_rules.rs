//! The rules for discarded jobs as the code of programs declares them, beside those that are stored.

use crate::discarded::DiscardRule;
use crate::lease::WorkerId;
use crate::storage_error::StorageError;

/// The rules that are stored, and those that the programs of live workers declare.
#[derive(Debug)]
pub struct DiscardRules {
    /// The rule of each kind that has one. `None`: it was changed by hand, and cannot be read.
    pub stored: Vec<(String, Option<DiscardRule>)>,
    /// What each live worker declares that does not drain. One whose rules this program cannot read is left out.
    pub live: Vec<(WorkerId, Vec<DiscardRule>)>,
}

impl DiscardRules {
    pub(crate) fn of(&self, kind: &str) -> Option<&Option<DiscardRule>> {
        self.stored.iter().find(|(stored, _)| stored == kind).map(|(_, rule)| rule)
    }

    /// Whether the kind is stored with this rule, or without a rule if it is `None`.
    pub fn stands(&self, kind: &str, declared: Option<&DiscardRule>) -> bool {
        match self.of(kind) {
            Some(stored) => declared.is_some() && stored.as_ref() == declared,
            None => declared.is_none(),
        }
    }

    /// Whether a live worker declares the rule of the kind as it is stored. Then it stays.
    pub fn is_kept(&self, kind: &str) -> bool {
        self.of(kind)
            .and_then(Option::as_ref)
            .is_some_and(|stored| self.live.iter().any(|(_, declared)| declared.contains(stored)))
    }
}

/// What became of the rules that a program declares.
#[derive(Debug, Default)]
pub struct DeclaredRules {
    /// Some rules are stored otherwise for now: a live worker declares them so, or another session has locked their
    /// rows.
    pub is_behind: bool,
    /// The kinds whose rules the database did not store, and why.
    pub refused: Vec<(String, StorageError)>,
}

impl DeclaredRules {
    /// Whether all rules are stored as they are declared.
    pub fn all_stand(&self) -> bool {
        !self.is_behind && self.refused.is_empty()
    }
}
