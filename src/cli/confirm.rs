//! Asks before a command does what cannot be undone.

use std::io::{self, BufRead as _};

use super::exit::CliError;
use super::output;

/// Asks the question, and fails unless the answer is `expected`. With `yes` it does not ask. The answer is read from
/// standard input, so a script may give it, too.
pub(super) fn confirm(question: &str, expected: &str, yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    output::complain(&format!("{question}\nWrite `{expected}` to continue:"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        answer if answer == expected => Ok(()),
        "" => {
            Err(CliError::failed(format!("nothing was changed: no answer was given. Write `{expected}`, or use --yes")))
        }
        answer => Err(CliError::failed(format!("nothing was changed: the answer was {answer:?} and not `{expected}`"))),
    }
}
