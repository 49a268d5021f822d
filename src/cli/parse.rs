//! Parsers for the values of options and variables.

use diesel_jobs_core::installation::check_words;

/// Parses the name of an environment.
pub(super) fn name(text: &str) -> Result<String, String> {
    check_words("the environment", text).map(|()| text.to_owned()).map_err(|problem| format!("{text:?}: {problem}"))
}

/// Parses a whole number of at least 1.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from 1")),
    }
}
