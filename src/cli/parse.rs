//! Parsers for the values of options and variables.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use diesel_jobs_core::installation::check_words;
use diesel_jobs_core::storage::check_one_queue;

use super::duration;

/// Parses the path of a file or a directory. A URL is refused, and clap's message is replaced: it would repeat it.
pub(super) fn path(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path.to_string_lossy().contains("://") { Err("it is a URL and no path") } else { Ok(path) }
}

/// Parses the name of an environment.
pub(super) fn name(text: &str) -> Result<String, String> {
    check_words("the environment", text).map(|()| text.to_owned()).map_err(|problem| format!("{text:?}: {problem}"))
}

pub(super) fn version(text: &str) -> Result<String, String> {
    check_words("the version", text).map(|()| text.to_owned()).map_err(|problem| format!("{text:?}: {problem}"))
}

/// Parses a name that becomes stored. A control character in it is a mistake of typing.
pub(super) fn typed_name(text: &str) -> Result<String, String> {
    match text.chars().find(|c| c.is_control()) {
        Some(control) => {
            Err(format!("{text:?} contains the control character {control:?}, which a name cannot have here"))
        }
        None => Ok(text.to_owned()),
    }
}

/// Parses whether a variable turns something on.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text.trim() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Parses the name of one queue.
pub(super) fn one_queue(text: &str) -> Result<String, String> {
    check_one_queue(text).map(|()| text.to_owned())
}

/// Parses a number of connections. No server accepts more than the highest.
pub(super) fn connections(text: &str) -> Result<usize, String> {
    match positive(text)? {
        number if number <= 10_000 => Ok(number),
        _ => Err(format!("{text:?} is more than 10000 connections")),
    }
}

/// Parses the age at which a connection is closed.
pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        lifetime if lifetime >= Duration::from_secs(1) => Ok(lifetime),
        _ => Err(format!("{text:?} is too short for a connection; write at least 1s, such as 10m")),
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

/// Parses a priority.
pub(super) fn priority(text: &str) -> Result<i16, String> {
    let wrong = |_| {
        format!(
            "{text:?} is not a priority: it is a whole number from {} to {}, and higher runs first",
            i16::MIN,
            i16::MAX
        )
    };
    text.trim().parse().map_err(wrong)
}

/// Parses the fingerprint of a group of failures.
pub(super) fn fingerprint(text: &str) -> Result<i64, String> {
    let wrong = |_| format!("{text:?} is not a fingerprint: it is a whole number, which `worker failures` prints");
    text.trim().parse().map_err(wrong)
}

/// Parses the number of attempts of a job.
pub(super) fn attempts(text: &str) -> Result<u16, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=i16::MAX.unsigned_abs()).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number of attempts: it is a whole number from 1 to {}", i16::MAX))
}

/// Parses a number of crashes.
pub(super) fn crashes(text: &str) -> Result<u16, String> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is not a whole number from 1 to {}", u16::MAX))
}

/// Parses the number of a line of a file, from 1.
pub(super) fn line(text: &str) -> Result<u64, String> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is not the number of a line: it is a whole number from 1"))
}

/// Parses an address of this machine with a port.
#[cfg(feature = "dashboard")]
pub(super) fn socket(text: &str) -> Result<std::net::SocketAddr, String> {
    let wrong = |_| {
        format!("{text:?} is not IP:PORT, such as 127.0.0.1:8080 or [::1]:8080; a name of a host is not possible here")
    };
    text.trim().parse().map_err(wrong)
}

/// Parses an instant: a date, which means midnight UTC, or a time with its zone.
pub(super) fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    let text = text.trim();
    let date = || text.parse::<NaiveDate>().map(|date| date.and_time(NaiveTime::MIN).and_utc());
    DateTime::parse_from_rfc3339(text).map(|at| at.to_utc()).or_else(|_| date()).map_err(|_| {
        format!("{text:?} is not a time; write a date such as 2026-01-31, or 2026-01-31T08:00:00Z with its time zone")
    })
}

/// Parses the id of a job.
pub(super) fn id(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not the id of a job: it is a whole number, see `worker list`"))
}

/// Parses the id of an operation, or of an entry of the audit.
pub(super) fn entry(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not an id, which is a whole number"))
}

/// Parses a number of slots of all queues together.
pub(super) fn slots_total(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(slots) if (1..=100_000).contains(&slots) => Ok(slots),
        _ => Err(format!(
            "{text:?} is not a number of slots of all queues together: write a whole number from 1 to 100000"
        )),
    }
}

/// Parses a whole number of at least 1.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_instants_with_a_zone() {
        let read = |text| instant(text).map(|at| at.to_rfc3339());
        assert_eq!(read("2026-01-31").unwrap(), "2026-01-31T00:00:00+00:00");
        assert_eq!(read("2026-01-31T08:00:00+01:00").unwrap(), "2026-01-31T07:00:00+00:00");
        for wrong in ["", "2026-02-30", "2026-01-31T08:00:00", "yesterday"] {
            assert!(instant(wrong).unwrap_err().contains("is not a time"), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_number_is_refused_with_what_was_given_and_what_is_possible() {
        let texts = [
            priority("99999").unwrap_err(),
            priority("high").unwrap_err(),
            attempts("0").unwrap_err(),
            attempts("40000").unwrap_err(),
            fingerprint("x").unwrap_err(),
            crashes("0").unwrap_err(),
            line("0").unwrap_err(),
            positive("0").unwrap_err(),
            positive("abc").unwrap_err(),
        ];
        let parts = [
            ("\"99999\"", "from -32768 to 32767"),
            ("\"high\"", "from -32768 to 32767"),
            ("\"0\"", "from 1 to 32767"),
            ("\"40000\"", "from 1 to 32767"),
            ("\"x\"", "worker failures"),
            ("\"0\"", "from 1 to 65535"),
            ("\"0\"", "a whole number from 1"),
            ("\"0\"", "a whole number from 1"),
            ("\"abc\"", "a whole number from 1"),
        ];
        for (text, (given, possible)) in texts.iter().zip(parts) {
            assert!(text.starts_with(given) && text.contains(possible), "{text}");
        }
        assert_eq!((priority("-5"), attempts("25"), fingerprint("-42")), (Ok(-5), Ok(25), Ok(-42)));
    }
}
