//! How a child process talks to its parent.

use std::io::Write as _;

/// A line to the parent. If it is gone, the closed input ends this process.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
