//! A number of jobs that may be an estimate.

use serde::Serialize;

/// How many jobs wait, as far as that can be counted quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// The number of jobs. If it is not exact, at least this many were there, or as many as were counted last.
    pub jobs: i64,
    /// Whether the jobs were counted now. If not, the number is an estimate.
    pub is_exact: bool,
}

impl Depth {
    /// `counted` jobs were found, and no more than `limit` were counted. `sampled` is how many there were at the last
    /// count of all jobs.
    pub fn new(counted: i64, limit: i64, sampled: i64) -> Self {
        Self::known(counted, counted < limit, sampled)
    }

    /// `counted` jobs were found. If there may be more, the number is at least that of the last count of all jobs.
    pub(super) fn known(counted: i64, is_exact: bool, sampled: i64) -> Self {
        if is_exact {
            return Self { jobs: counted, is_exact };
        }
        Self { jobs: counted.max(sampled), is_exact }
    }
}

impl std::ops::Add for Depth {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { jobs: self.jobs + other.jobs, is_exact: self.is_exact && other.is_exact }
    }
}

impl std::fmt::Display for Depth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { jobs, is_exact } = self;
        if *is_exact { write!(f, "{jobs}") } else { write!(f, "{jobs}+") }
    }
}
