//! The kinds of violations, and the job of each.

use std::fmt;

/// Which guarantee was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An acknowledged job does not exist, or it ended in another way than its handler reported.
    Lost,
    /// A job exists or ran although its enqueue was rolled back or never happened. Or a job exists twice.
    Phantom,
    /// The effect of a transactional job exists more than once.
    DoubleEffect,
    /// An attempt that no longer held the lease wrote something, and it was kept.
    StaleWrite,
    /// Two attempts ran under one lease.
    SharedLease,
    /// There were more attempts than allowed, or the count differs from what happened.
    Attempts,
    /// A job started before a job that comes earlier in the order.
    Order,
    /// A job had not ended at the end of the run.
    Stuck,
    /// A session was left in a transaction.
    OpenTransaction,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lost => "lost",
            Self::Phantom => "phantom",
            Self::DoubleEffect => "double effect",
            Self::StaleWrite => "stale write accepted",
            Self::SharedLease => "lease held twice",
            Self::Attempts => "attempts miscounted",
            Self::Order => "order violated",
            Self::Stuck => "stuck",
            Self::OpenTransaction => "left in a transaction",
        })
    }
}

/// One violation of a guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which guarantee was violated.
    pub kind: Kind,
    /// The number of the affected job, if there is one.
    pub number: Option<i64>,
    /// What was found.
    pub what: String,
}

impl Violation {
    pub(super) fn new(kind: Kind, number: i64, what: impl Into<String>) -> Self {
        Self { kind, number: Some(number), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{}: job number {number}: {}", self.kind, self.what),
            None => write!(f, "{}: {}", self.kind, self.what),
        }
    }
}
