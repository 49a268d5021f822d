//! What a worker that runs until nothing is left was asked for besides.

use std::sync::Arc;

use crate::storage::Operator;

/// How far a worker goes that runs until nothing is left.
#[derive(Clone)]
pub(super) struct Bounds {
    /// It ends with an error after this many attempts.
    pub(super) attempts: u64,
    /// Makes time pass when all jobs that are left are scheduled for later.
    pub(super) skip_time: Option<Arc<dyn Operator>>,
}
