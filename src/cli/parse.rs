//! Parsers for the values of options and variables.

use diesel_jobs_core::installation::check_words;

/// Parses the name of an environment.
pub(super) fn name(text: &str) -> Result<String, String> {
    check_words("the environment", text).map(|()| text.to_owned()).map_err(|problem| format!("{text:?}: {problem}"))
}

/// Parses a number of connections. No server accepts more than the highest.
pub(super) fn connections(text: &str) -> Result<usize, String> {
    match positive(text)? {
        number if number <= 10_000 => Ok(number),
        _ => Err(format!("{text:?} is more than 10000 connections")),
    }
}

/// Parses an address to listen on. Whether this machine has it is found out later.
pub(super) fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.trim().rsplit_once(':').unwrap_or_default();
    match port.parse::<u16>() {
        Ok(_) if !host.is_empty() => Ok(text.trim().to_owned()),
        _ => Err(format!(
            "{text:?} is not HOST:PORT, such as 127.0.0.1:9464 for this machine alone, or 0.0.0.0:9464 for its networks"
        )),
    }
}

/// Parses the id of a job.
pub(super) fn id(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not the id of a job: it is a whole number, see `worker list`"))
}

/// Parses the id of an operation, or of an entry of the audit.
pub(super) fn entry(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not an id, which is a whole number"))
}

/// Parses a whole number of at least 1.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from 1")),
    }
}
