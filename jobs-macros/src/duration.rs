//! Durations in the notation of the options: `"30s"`, `"1h 30m"`.

use std::time::Duration;

/// A hundred years. A longer duration is a typing error, and would not fit a database's timestamps.
const MAX: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// Parses a duration. The error contains the text and a correct example.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is not a duration; write whole numbers with units, such as \"500ms\", \"30s\", \"1h 30m\" or \"7d\""
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 3600 * 1000,
            "d" => 24 * 3600 * 1000,
            _ => return Err(wrong()),
        };
        // The digits may be missing, or the number may be too large for `u64`.
        let number: u64 = match number.parse() {
            Ok(number) => number,
            Err(_) if number.is_empty() => return Err(wrong()),
            Err(_) => u64::MAX,
        };
        total = total.saturating_add(Duration::from_millis(number.saturating_mul(milliseconds)));
        rest = after.trim_start();
    }
    if total > MAX {
        return Err(format!("{text:?} is longer than a hundred years"));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::{MAX, parse};
    use std::time::Duration;

    #[test]
    fn numbers_with_units_add_up() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            (" 1s  1ms ", 1001),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in ["", " ", "30", "s", "30 s", "1.5h", "-1s", "1 week", "1S", "1s,", "٣s", "1h -30m"] {
            assert!(parse(text).is_err_and(|message| message.contains("\"30s\"")), "{text:?}");
        }
    }

    #[test]
    fn a_hundred_years_are_the_limit_and_nothing_overflows() {
        assert_eq!(parse("36525d"), Ok(MAX));
        for text in ["36525d 1ms", "18446744073709551615d", "99999999999999999999999999s"] {
            assert!(parse(text).is_err_and(|message| message.contains("hundred years")), "{text:?}");
        }
    }
}
