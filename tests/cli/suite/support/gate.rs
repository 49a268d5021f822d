//! What a handler waits for until the test lets it go on.

use std::fs;

use super::Scratch;

/// A file that the fixture's handlers wait for.
pub(crate) struct Gate(Scratch);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Scratch::new())
    }

    /// The path, which the handlers get as their argument.
    pub(crate) fn file(&self) -> String {
        self.0.path().join("open").display().to_string()
    }

    /// Lets the handlers end.
    pub(crate) fn open(&self) {
        fs::write(self.file(), "").unwrap();
    }
}
