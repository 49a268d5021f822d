//! The messages of a child process to its parent.

use std::io::Write as _;

/// Prints a line for the parent, with one write. So the parent reads it even if this process is killed right after.
/// Errors are ignored: if the parent is gone, standard input ends, and this process ends too.
pub(crate) fn say(line: &str) {
    let mut output = std::io::stdout();
    let _ = output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush());
}
