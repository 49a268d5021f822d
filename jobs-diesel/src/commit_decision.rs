//! Blocking handlers cannot be stopped. When one must end, it is settled at once that its transaction will not be
//! committed; it is rolled back when the function returns.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether the transaction commits is settled once, by whoever comes first: the handler's end or the abort.
#[derive(Default)]
pub(crate) struct CommitDecision(AtomicU8);

impl CommitDecision {
    const OPEN: u8 = 0;
    pub(crate) const COMMITS: u8 = 1;
    pub(crate) const ABORTED: u8 = 2;

    /// `false`: it was settled before.
    pub(crate) fn settle(&self, commit_decision: u8) -> bool {
        self.0.compare_exchange(Self::OPEN, commit_decision, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::ABORTED
    }
}
