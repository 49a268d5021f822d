//! What a worker that runs until nothing is left was asked for besides.

use std::sync::Arc;

use crate::storage::Operator;

/// How far a worker goes that runs until nothing is left.
#[derive(Clone)]
pub(super) struct Bounds {
    /// It ends with an error after this many attempts.
    pub(super) attempts: u64,
    /// What it does when all jobs that are left are scheduled for later.
    pub(super) later: Later,
}

/// What becomes of jobs that are scheduled for later.
#[derive(Clone)]
pub(super) enum Later {
    /// The worker waits for them.
    Await,
    /// The operator makes time pass.
    Skip(Arc<dyn Operator>),
    /// The worker ends without them.
    Leave,
}
