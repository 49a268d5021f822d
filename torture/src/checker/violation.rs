//! What can break, and where.

use std::fmt;

/// What broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A job that was acknowledged is not there, or ended otherwise than its handler said.
    Lost,
    /// A job that was rolled back, or never enqueued, ran or exists; or one exists twice.
    Phantom,
    /// A transactional job's effect is there more than once.
    DoubleEffect,
    /// An attempt that did not hold the lease any more wrote something that stands.
    StaleWrite,
    /// Two attempts ran under one lease.
    SharedLease,
    /// More attempts than allowed, or a count that is not what happened.
    Attempts,
    /// A job started before a better one.
    Order,
    /// A job that is neither waiting to be run nor ended, or still there when all should be done.
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

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What broke.
    pub kind: Kind,
    /// The number of the job at which it shows.
    pub number: Option<i64>,
    /// What was seen.
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
