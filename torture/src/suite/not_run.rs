//! A test that this machine cannot run: it says nothing about the product, least of all that a promise holds.

use std::error::Error;
use std::fmt;

/// Why not.
#[derive(Debug)]
pub(super) struct NotRun(anyhow::Error);

impl NotRun {
    /// For what a test needs before it can begin.
    pub(super) fn because(why: anyhow::Error) -> anyhow::Error {
        Self(why).into()
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not run: {:#}", self.0)
    }
}

impl Error for NotRun {}
