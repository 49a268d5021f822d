//! The error of a test that this machine cannot run. It proves nothing about the product.

use std::error::Error;
use std::fmt;

/// The reason.
#[derive(Debug)]
pub(super) struct NotRun(anyhow::Error);

impl NotRun {
    /// For the preparations that a test needs before it can begin.
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
