//! Durations in the notation of the options: `30s`, `500ms`, `1h 30m`.

use std::time::Duration;

/// The units, and how many milliseconds each has.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a duration: the sum of whole numbers, each with its unit.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is missing; write one such as 30s, 500ms or 1h 30m".to_owned());
    }
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let (digits, tail) = split(rest, |c| c.is_ascii_digit());
        let (unit, tail) = split(tail.trim_start(), char::is_alphabetic);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let part = match (digits.parse::<u64>(), factor) {
            (Ok(number), Some(factor)) => number.checked_mul(factor),
            (Ok(_), None) if tail.starts_with(['.', ',']) => {
                return Err(format!(
                    "{text:?} has a fraction; write whole numbers with units, such as 1500ms or 1m 30s"
                ));
            }
            (Ok(_), None) if unit.is_empty() => {
                return Err(format!(
                    "{text:?} has a number without a unit; write {digits}s, or another of ms, s, m, h, d"
                ));
            }
            (Ok(_), None) => return Err(format!("{text:?} has an unknown unit {unit:?}; write one of ms, s, m, h, d")),
            (Err(_), _) if digits.is_empty() => {
                return Err(format!(
                    "{text:?} is not a duration; write whole numbers with units, such as 30s, 500ms or 1h 30m"
                ));
            }
            (Err(_), _) => None,
        };
        millis =
            part.and_then(|part| millis.checked_add(part)).ok_or_else(|| format!("{text:?} is too long a time"))?;
        rest = tail.trim_start();
    }
    Ok(Duration::from_millis(millis))
}

/// Parses a duration that must not be zero.
pub(super) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err(format!("{text:?} must be longer than 0; write a time such as 30s or 500ms")),
        duration => Ok(duration),
    }
}

/// Returns the duration in its largest units, at most two of them, for people.
pub(super) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.subsec_millis()),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_and_their_sums_are_read() {
        let millis = |text| parse(text).map(|d| d.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("30s"), Ok(30_000));
        assert_eq!(millis(" 5 m "), Ok(300_000));
        assert_eq!(millis("1h 30m"), Ok(5_400_000));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("2d"), Ok(172_800_000));
        assert_eq!(millis("0s"), Ok(0));
    }

    #[test]
    fn wrong_durations_are_refused_with_the_reason() {
        for (text, part) in [
            ("", "missing"),
            ("30", "write 30s"),
            ("30 parsecs", "unknown unit \"parsecs\""),
            ("-5s", "not a duration"),
            ("1.5s", "whole numbers with units, such as 1500ms"),
            ("soon", "not a duration"),
            ("99999999999999999999s", "too long"),
            ("99999999999999999d", "too long"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(parse_positive("0ms").unwrap_err().contains("longer than 0"));
    }

    #[test]
    fn people_read_the_two_largest_units() {
        let human = |millis| human(Duration::from_millis(millis));
        assert_eq!(human(250), "250 ms");
        assert_eq!(human(59_900), "59 s");
        assert_eq!(human(61_000), "1 min 1 s");
        assert_eq!(human(3_660_000), "1 h 1 min");
        assert_eq!(human(90_000_000), "1 d 1 h");
    }
}
