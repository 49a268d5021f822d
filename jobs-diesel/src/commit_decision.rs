//! A blocking handler cannot be stopped. When it must end, the decision not to commit its transaction is stored at
//! once. The transaction is rolled back when the function returns.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether the transaction commits. The first of two events decides: the end of the handler, or the abort.
#[derive(Default)]
pub(crate) struct CommitDecision(AtomicU8);

impl CommitDecision {
    const OPEN: u8 = 0;
    pub(crate) const COMMITS: u8 = 1;
    pub(crate) const ABORTED: u8 = 2;

    /// Stores the decision. Returns `false` if a decision was stored before.
    pub(crate) fn settle(&self, commit_decision: u8) -> bool {
        self.0.compare_exchange(Self::OPEN, commit_decision, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::ABORTED
    }
}
