//! The messages of a child process to its parent.

use std::io::Write as _;

/// Prints a line for the parent. Errors are ignored: if the parent is gone, standard input ends, and this process ends
/// too.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
